//! Avro's schema language: read by the `apache-avro` crate, and told apart as Pulsar does.
//!
//! Pulsar is more lenient than the specification in three ways, and schemas that depend on it are in use: names may hold `$` and letters
//! of any alphabet, a default need not fit its field, and a logical type that cannot be is no logical type. So defaults are only noted
//! as being there, and logical types left out, before the crate sees a schema.

use std::collections::HashMap;
use std::sync::LazyLock;

use apache_avro::Schema;
use apache_avro::schema::Name;
use apache_avro::validator::{
    EnumSymbolNameValidator, RecordFieldNameValidator, SchemaNameValidator, SchemaNamespaceValidator, set_enum_symbol_name_validator,
    set_record_field_name_validator, set_schema_name_validator, set_schema_namespace_validator,
};
use regex_lite::Regex;
use serde_json::{Map, Value};

/// Stands on a field in place of its default.
pub(crate) const DEFAULTED: &str = "defaulted";

/// A schema that could be read.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) schema: Schema,
}

/// Reads a schema; the error says what is wrong with it.
pub(crate) fn parse(definition: &[u8]) -> Result<Parsed, String> {
    LazyLock::force(&LENIENT);
    LazyLock::force(&MODEST);
    let mut value: Value = serde_json::from_slice(definition).map_err(|error| error.to_string())?;
    rewrite(&mut value, |object, place| {
        match place {
            Place::Field if object.shift_remove("default").is_some() => drop(object.insert(DEFAULTED.to_owned(), Value::Bool(true))),
            Place::Field => {}
            Place::Type => {
                if object.get("type").and_then(Value::as_str) == Some("error") {
                    object.insert("type".to_owned(), Value::String("record".to_owned()));
                }
            }
        }
        object.shift_remove("logicalType");
    });
    let schema = Schema::parse(&value).map_err(|error| error.to_string())?;
    Ok(Parsed { schema })
}

/// Whether two definitions say the same but for documentation, aliases and the way they are written.
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    let bare = |definition| {
        let mut value: Value = serde_json::from_slice(definition).ok()?;
        rewrite(&mut value, |object, _| {
            object.shift_remove("doc");
            object.shift_remove("aliases");
        });
        Some(value)
    };
    match (bare(one), bare(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

impl Parsed {
    /// What is called what in it.
    pub(crate) fn names(&self) -> HashMap<Name, &Schema> {
        let mut names = HashMap::new();
        collect(&self.schema, &mut names);
        names
    }
}

fn collect<'s>(schema: &'s Schema, names: &mut HashMap<Name, &'s Schema>) {
    match schema {
        Schema::Array(array) => collect(&array.items, names),
        Schema::Map(map) => collect(&map.types, names),
        Schema::Union(union) => union.variants().iter().for_each(|branch| collect(branch, names)),
        Schema::Record(record) => {
            names.insert(record.name.clone(), schema);
            record.fields.iter().for_each(|field| collect(&field.schema, names));
        }
        Schema::Enum(_) | Schema::Fixed(_) => drop(schema.name().map(|name| names.insert(name.clone(), schema))),
        _ => {}
    }
}

/// Where an object stands in a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Type,
    Field,
}

/// Applies a rule to every object of a schema, from within; an object that then says no more than its type is only that.
fn rewrite(value: &mut Value, rule: fn(&mut Map<String, Value>, Place)) {
    let object = match value {
        Value::Array(branches) => return branches.iter_mut().for_each(|branch| rewrite(branch, rule)),
        Value::Object(object) => object,
        _ => return,
    };
    for part in ["type", "items", "values"] {
        if let Some(part) = object.get_mut(part) {
            rewrite(part, rule);
        }
    }
    if let Some(Value::Array(fields)) = object.get_mut("fields") {
        for field in fields.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(part) = field.get_mut("type") {
                rewrite(part, rule);
            }
            rule(field, Place::Field);
        }
    }
    rule(object, Place::Type);
    if object.len() == 1
        && let Some(only) = object.shift_remove("type")
    {
        *value = only;
    }
}

/// Names as Pulsar takes them.
struct Lenient;

static LENIENT: LazyLock<()> = LazyLock::new(|| {
    // Refused only if something was parsed before, and nothing else here parses.
    let _ = set_schema_name_validator(Box::new(Lenient));
    let _ = set_schema_namespace_validator(Box::new(Lenient));
    let _ = set_enum_symbol_name_validator(Box::new(Lenient));
    let _ = set_record_field_name_validator(Box::new(Lenient));
});

/// What a message says of itself is a stranger's word: the crate takes no more memory for a part of it than a message may have.
static MODEST: LazyLock<usize> = LazyLock::new(|| apache_avro::util::max_allocation_bytes(MOST_MEMORY));
const MOST_MEMORY: usize = 8 << 20;

static NAME: LazyLock<Regex> = LazyLock::new(|| regex(r"^[A-Za-z_$\u{80}-\u{10FFFF}][A-Za-z0-9_$\u{80}-\u{10FFFF}]*$"));
static FULL_NAME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^((?P<namespace>[^\n]*)\.)?(?P<name>[A-Za-z_$\u{80}-\u{10FFFF}][A-Za-z0-9_$\u{80}-\u{10FFFF}]*)$"));
static NAMESPACE: LazyLock<Regex> = LazyLock::new(|| regex(r"^[^\n]*$"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is written here")
}

impl SchemaNameValidator for Lenient {
    fn regex(&self) -> &'static Regex {
        &FULL_NAME
    }
}

impl SchemaNamespaceValidator for Lenient {
    fn regex(&self) -> &'static Regex {
        &NAMESPACE
    }
}

impl EnumSymbolNameValidator for Lenient {
    fn regex(&self) -> &'static Regex {
        &NAME
    }
}

impl RecordFieldNameValidator for Lenient {
    fn regex(&self) -> &'static Regex {
        &NAME
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// JSON that is made of the words of Avro's language, mostly in the wrong places.
    fn words() -> impl Strategy<Value = Value> {
        let word = prop::sample::select(vec![
            json!("record"),
            json!("enum"),
            json!("fixed"),
            json!("array"),
            json!("map"),
            json!("int"),
            json!("bytes"),
            json!("decimal"),
            json!("R"),
            json!("n.R"),
            json!(".R"),
            json!(""),
            json!("\u{e9}"),
            json!(null),
            json!(-1),
            json!(1.5e300),
            json!(true),
        ]);
        let key = prop::sample::select(vec![
            "type",
            "name",
            "namespace",
            "fields",
            "items",
            "values",
            "symbols",
            "size",
            "default",
            "aliases",
            "logicalType",
            "precision",
            "scale",
            "order",
            "doc",
        ]);
        word.prop_recursive(6, 64, 8, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec((key.clone(), inner), 0..6)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())),
            ]
        })
    }

    /// What is likely to be read, so that what follows reading is reached too.
    fn schemas() -> impl Strategy<Value = Value> {
        let leaf = prop::sample::select(vec![
            json!("int"),
            json!("long"),
            json!("string"),
            json!("R"),
            json!({"type": "enum", "name": "E", "symbols": ["A"]}),
            json!({"type": "fixed", "name": "F", "size": 4}),
        ]);
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
                (prop::sample::select(vec!["R", "S", "T"]), prop::collection::vec(inner, 0..3)).prop_map(|(name, types)| {
                    let field = |(n, of): (usize, Value)| json!({"name": format!("f{n}"), "type": of, "default": null});
                    json!({"type": "record", "name": name, "fields": types.into_iter().enumerate().map(field).collect::<Vec<_>>()})
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(value in prop_oneof![words(), schemas()]) {
            let text = value.to_string();
            let _ = parse(text.as_bytes());
            prop_assert!(same(text.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn a_schema_reads_what_it_wrote(value in schemas()) {
            if let Ok(parsed) = parse(value.to_string().as_bytes()) {
                prop_assert_eq!(super::super::resolution::reads(&parsed, &parsed), Ok(()));
            }
        }
    }

    #[test]
    fn a_default_is_noted_and_a_field_called_default_is_a_field() {
        let value = json!({"type": "record", "name": "R", "fields": [{"name": "default", "type": "int"}, {"name": "b", "type": "int", "default": "x"}]});
        let parsed = parse(value.to_string().as_bytes()).unwrap();
        let Schema::Record(record) = &parsed.schema else { panic!("a record") };
        let defaulted: Vec<bool> = record.fields.iter().map(|field| field.custom_attributes.contains_key(DEFAULTED)).collect();
        assert_eq!(defaulted, [false, true]);
    }
}
