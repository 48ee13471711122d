//! Avro: whether a reader with one schema understands what was written with another.
//!
//! The rules are those of Avro's Java library, which Pulsar asks. The `SchemaCompatibility` of the `apache-avro` crate differs where
//! it matters: it takes a union of which a part can be read for readable, refuses records by their names and enums by their symbols,
//! knows no aliases of types, and cannot follow a name on one side to the definition on the other.

use std::collections::HashMap;
use std::ptr::from_ref;

use apache_avro::Schema;
use apache_avro::schema::{Alias, Name, RecordField, RecordSchema};

use super::avro::{DEFAULTED, Parsed};

/// Pairs of types that one comparison looks at, at most.
const MAX_WORK: u32 = 1_000_000;
/// Definitions within definitions that are followed, through names too.
const MAX_DEPTH: u32 = 400;

/// Whether `reader` understands what `writer` wrote; the error says where it does not.
pub(crate) fn reads(reader: &Parsed, writer: &Parsed) -> Result<(), String> {
    let mut resolution = Resolution { readers: reader.names(), writers: writer.names(), seen: HashMap::new(), work: 0, depth: 0 };
    resolution.resolve(&writer.schema, &reader.schema)
}

struct Resolution<'s> {
    readers: HashMap<Name, &'s Schema>,
    writers: HashMap<Name, &'s Schema>,
    /// Records, the writer's and the reader's, and whether they go together; what is being looked at is taken to.
    seen: HashMap<(*const RecordSchema, *const RecordSchema), bool>,
    work: u32,
    depth: u32,
}

impl<'s> Resolution<'s> {
    fn resolve(&mut self, writer: &'s Schema, reader: &'s Schema) -> Result<(), String> {
        self.work += 1;
        if self.work > MAX_WORK || self.depth > MAX_DEPTH {
            return Err("the schemas are too large to be compared".to_owned());
        }
        self.depth += 1;
        let outcome = self.resolve_definitions(writer, reader);
        self.depth -= 1;
        outcome
    }

    fn resolve_definitions(&mut self, writer: &'s Schema, reader: &'s Schema) -> Result<(), String> {
        let (writer, reader) = (self.writer(writer)?, self.reader(reader)?);
        match (writer, reader) {
            (Schema::Union(union), _) => {
                for branch in union.variants() {
                    self.resolve(branch, reader).map_err(|why| format!("{} of a union: {why}", title(branch)))?;
                }
                Ok(())
            }
            (_, Schema::Union(union)) => match self.branch(writer, union.variants())? {
                Some(branch) => self.resolve(writer, branch),
                None => Err(format!("{} is not in the reader's union", title(writer))),
            },
            (Schema::Array(w), Schema::Array(r)) => self.resolve(&w.items, &r.items).map_err(|why| format!("items: {why}")),
            (Schema::Map(w), Schema::Map(r)) => self.resolve(&w.types, &r.types).map_err(|why| format!("values: {why}")),
            (Schema::Record(w), Schema::Record(r)) => self.record(w, r),
            (Schema::Enum(w), Schema::Enum(r)) => named_alike(&w.name, &r.name, r.aliases.as_ref()),
            (Schema::Fixed(w), Schema::Fixed(r)) if w.size != r.size => {
                Err(format!("{} has {} bytes for the writer and {} for the reader", r.name.name(), w.size, r.size))
            }
            (Schema::Fixed(w), Schema::Fixed(r)) => named_alike(&w.name, &r.name, r.aliases.as_ref()),
            _ if is_same(writer, reader) || promotes(writer, reader) => Ok(()),
            _ => Err(format!("the reader expects {}, the writer wrote {}", title(reader), title(writer))),
        }
    }

    fn record(&mut self, writer: &'s RecordSchema, reader: &'s RecordSchema) -> Result<(), String> {
        let pair = (from_ref(writer), from_ref(reader));
        match self.seen.get(&pair) {
            Some(true) => return Ok(()),
            Some(false) => return Err(format!("record {} does not fit", reader.name.name())),
            None => {}
        }
        self.seen.insert(pair, true);
        let outcome = self.fields(writer, reader);
        self.seen.insert(pair, outcome.is_ok());
        outcome
    }

    fn fields(&mut self, writer: &'s RecordSchema, reader: &'s RecordSchema) -> Result<(), String> {
        let by_name: HashMap<&str, &RecordField> = writer.fields.iter().map(|field| (field.name.as_str(), field)).collect();
        for field in &reader.fields {
            let mut names = std::iter::once(&field.name).chain(&field.aliases);
            match names.find_map(|name| by_name.get(name.as_str())) {
                Some(written) => {
                    self.resolve(&written.schema, &field.schema).map_err(|why| format!("field {}: {why}", field.name))?;
                }
                None if field.custom_attributes.contains_key(DEFAULTED) => {}
                None => return Err(format!("field {} has no default, and the writer does not write it", field.name)),
            }
        }
        Ok(())
    }

    /// The branch of the reader's union that takes what the writer wrote: of the same type, else one it can be promoted to.
    fn branch(&mut self, writer: &'s Schema, branches: &'s [Schema]) -> Result<Option<&'s Schema>, String> {
        let mut alike = None;
        for branch in branches {
            let reader = self.reader(branch)?;
            match (writer, reader) {
                (Schema::Record(w), Schema::Record(r)) => {
                    if w.name == r.name || is_alias(&w.name, r.aliases.as_ref(), &r.name) {
                        return Ok(Some(branch));
                    }
                    self.work += 1;
                    if (alike.is_none() || w.name.name() == r.name.name()) && self.record(w, r).is_ok() {
                        alike = Some(branch);
                    }
                }
                (Schema::Enum(_), Schema::Enum(_)) | (Schema::Fixed(_), Schema::Fixed(_)) => {
                    let (Some(w), Some(r)) = (writer.name(), reader.name()) else { continue };
                    if w == r || is_alias(w, reader.aliases(), r) {
                        return Ok(Some(branch));
                    }
                }
                (Schema::Array(_), Schema::Array(_)) | (Schema::Map(_), Schema::Map(_)) => return Ok(Some(branch)),
                _ if is_same(writer, reader) => return Ok(Some(branch)),
                _ => {}
            }
        }
        Ok(alike.or_else(|| branches.iter().find(|branch| promotes(writer, branch))))
    }

    fn writer(&self, schema: &'s Schema) -> Result<&'s Schema, String> {
        follow(schema, &self.writers)
    }

    fn reader(&self, schema: &'s Schema) -> Result<&'s Schema, String> {
        follow(schema, &self.readers)
    }
}

/// The definition behind a name.
fn follow<'s>(schema: &'s Schema, names: &HashMap<Name, &'s Schema>) -> Result<&'s Schema, String> {
    match schema {
        Schema::Ref { name } => names.get(name).copied().ok_or_else(|| format!("{} is not defined", name.fullname(None))),
        other => Ok(other),
    }
}

/// Types without parts and without a name.
fn is_same(writer: &Schema, reader: &Schema) -> bool {
    matches!(
        (writer, reader),
        (Schema::Null, Schema::Null)
            | (Schema::Boolean, Schema::Boolean)
            | (Schema::Int, Schema::Int)
            | (Schema::Long, Schema::Long)
            | (Schema::Float, Schema::Float)
            | (Schema::Double, Schema::Double)
            | (Schema::Bytes, Schema::Bytes)
            | (Schema::String, Schema::String)
    )
}

fn promotes(writer: &Schema, reader: &Schema) -> bool {
    matches!(
        (writer, reader),
        (Schema::Int, Schema::Long | Schema::Float | Schema::Double)
            | (Schema::Long, Schema::Float | Schema::Double)
            | (Schema::Float, Schema::Double)
            | (Schema::Bytes, Schema::String)
            | (Schema::String, Schema::Bytes)
    )
}

fn named_alike(writer: &Name, reader: &Name, aliases: Option<&Vec<Alias>>) -> Result<(), String> {
    if writer.name() == reader.name() || is_alias(writer, aliases, reader) {
        return Ok(());
    }
    Err(format!("the reader expects {}, the writer wrote {}", reader.fullname(None), writer.fullname(None)))
}

/// Whether the reader's type was once called as the writer's is.
fn is_alias(writer: &Name, aliases: Option<&Vec<Alias>>, reader: &Name) -> bool {
    let written = writer.fullname(None);
    aliases.is_some_and(|aliases| aliases.iter().any(|alias| alias.fullname(reader.namespace()) == written))
}

/// What a type is called.
fn title(schema: &Schema) -> String {
    match schema {
        Schema::Null => "null".to_owned(),
        Schema::Boolean => "boolean".to_owned(),
        Schema::Int => "int".to_owned(),
        Schema::Long => "long".to_owned(),
        Schema::Float => "float".to_owned(),
        Schema::Double => "double".to_owned(),
        Schema::Bytes => "bytes".to_owned(),
        Schema::String => "string".to_owned(),
        Schema::Array(_) => "an array".to_owned(),
        Schema::Map(_) => "a map".to_owned(),
        Schema::Union(_) => "a union".to_owned(),
        other => other.name().map_or_else(|| "a type of another kind".to_owned(), |name| name.fullname(None)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::avro::parse;
    use super::*;

    fn parsed(schema: &Value) -> Parsed {
        parse(schema.to_string().as_bytes()).unwrap()
    }

    fn reads_what(reader: &Value, writer: &Value) -> bool {
        reads(&parsed(reader), &parsed(writer)).is_ok()
    }

    fn record(fields: Value) -> Value {
        json!({"type": "record", "name": "R", "fields": fields})
    }

    #[test]
    fn numbers_are_promoted_and_never_narrowed() {
        let order = ["int", "long", "float", "double"];
        for (at, writer) in order.iter().enumerate() {
            for (to, reader) in order.iter().enumerate() {
                assert_eq!(reads_what(&json!(reader), &json!(writer)), to >= at, "{reader} reads {writer}");
            }
        }
        assert!(reads_what(&json!("string"), &json!("bytes")) && reads_what(&json!("bytes"), &json!("string")));
        assert!(!reads_what(&json!("string"), &json!("int")) && !reads_what(&json!("boolean"), &json!("int")));
    }

    #[test]
    fn every_branch_a_writer_may_choose_must_be_read() {
        assert!(reads_what(&json!(["null", "long"]), &json!(["null", "int"])));
        assert!(reads_what(&json!(["null", "string"]), &json!("string")));
        assert!(!reads_what(&json!("string"), &json!(["null", "string"])));
        assert!(!reads_what(&json!(["null", "int"]), &json!(["null", "int", "boolean"])));
        assert!(reads_what(&json!(["int", "double"]), &json!("float")));
    }

    #[test]
    fn records_may_change_their_name_and_fields_have_aliases() {
        let (old, mut new) =
            (record(json!([{"name": "a", "type": "int"}])), record(json!([{"name": "b", "type": "long", "aliases": ["a"]}])));
        new["name"] = json!("S");
        assert!(reads_what(&new, &old));
        assert!(!reads_what(&old, &new));
    }

    #[test]
    fn enums_and_fixed_keep_their_names_or_tell_the_earlier_one() {
        let symbols = |name: &str, symbols: Value| json!({"type": "enum", "name": name, "symbols": symbols});
        assert!(reads_what(&symbols("E", json!(["A"])), &symbols("E", json!(["A", "B"]))), "what is missing is found when it is read");
        assert!(!reads_what(&symbols("F", json!(["A"])), &symbols("E", json!(["A"]))));
        let mut renamed = symbols("n.F", json!(["A"]));
        renamed["aliases"] = json!(["E"]);
        assert!(reads_what(&renamed, &symbols("n.E", json!(["A"]))));
        let fixed = |size: u32| json!({"type": "fixed", "name": "X", "size": size});
        assert!(reads_what(&fixed(4), &fixed(4)) && !reads_what(&fixed(4), &fixed(5)));
    }

    #[test]
    fn a_name_on_one_side_is_followed_to_the_definition_on_the_other() {
        let point = json!({"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]});
        let narrow = json!({"type": "record", "name": "P", "fields": [{"name": "x", "type": "boolean"}]});
        let writer = record(json!([{"name": "a", "type": point}, {"name": "b", "type": "P"}]));
        let fits = record(json!([{"name": "b", "type": point}, {"name": "a", "type": "P"}]));
        let differs = record(json!([{"name": "b", "type": narrow}]));
        assert!(reads_what(&fits, &writer));
        assert!(!reads_what(&differs, &writer));
    }

    #[test]
    fn lists_of_themselves_come_to_an_end() {
        let list = |item: &str| {
            json!({"type": "record", "name": "List", "fields": [
                {"name": "item", "type": item}, {"name": "next", "type": ["null", "List"]}
            ]})
        };
        assert!(reads_what(&list("long"), &list("int")));
        assert!(!reads_what(&list("int"), &list("long")));
    }

    #[test]
    fn work_and_depth_have_a_bound() {
        // Each of many records of the one is held against each of the other.
        let many = |field: &str| {
            let branch = |n| json!({"type": "record", "name": format!("R{n}{field}"), "fields": [{"name": field, "type": "int"}]});
            Value::Array((0..2_000).map(branch).collect())
        };
        let why = reads(&parsed(&many("a")), &parsed(&many("b"))).unwrap_err();
        assert!(why.contains("too large") || why.contains("union"), "{why}");
        let mut deep = json!("int");
        for _ in 0..100 {
            deep = json!({"type": "array", "items": deep});
        }
        assert!(reads_what(&deep, &deep));
        // Not nested, but each names the one before; nothing was looked at when the last is.
        let link = |n: usize| {
            let fields = if n == 0 { json!([]) } else { json!([{"name": "f", "type": format!("R{}", n - 1)}]) };
            json!({"type": "record", "name": format!("R{n}"), "fields": fields})
        };
        let links: Vec<Value> = (0..1_000).map(link).collect();
        let top = |holder: &str, last: usize| {
            let held = json!({"name": holder, "type": {"type": "array", "items": links}, "default": []});
            json!({"type": "record", "name": "Top", "fields": [held, {"name": "b", "type": format!("R{last}")}]})
        };
        assert!(reads_what(&top("x", 100), &top("y", 100)));
        assert!(reads(&parsed(&top("x", 999)), &parsed(&top("y", 999))).unwrap_err().contains("too large"));
    }

    #[test]
    fn the_reason_tells_where() {
        let writer = record(json!([{"name": "a", "type": {"type": "array", "items": "string"}}]));
        let reader = record(json!([{"name": "a", "type": {"type": "array", "items": "int"}}]));
        let why = reads(&parsed(&reader), &parsed(&writer)).unwrap_err();
        assert_eq!(why, "field a: items: the reader expects int, the writer wrote string");
    }
}
