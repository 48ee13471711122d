//! `geminga admin schemas`

use crate::remote::verb::{Arg, Kind, Noun, To, Verb};

const TOPIC: Arg = Arg::place("topic", Kind::TopicOfAnyDomain, "In full or short: NAME is persistent://public/default/NAME");

pub(super) fn noun() -> Noun {
    let version = Arg::flag("version", Kind::Integer, "A version instead of the latest").short('v');
    let force = Arg::flag("force", Kind::Yes, "Remove the versions instead of hiding them").short('f').query("force");
    let verbs = vec![
        Verb::get("get", "/admin/v2/schemas/{topic}/schema", "The latest version of a topic's schema, or the one asked for")
            .with(TOPIC)
            .with(version)
            .or_if("version", "/admin/v2/schemas/{topic}/schema/{version}")
            .example("orders"),
        Verb::get("get-all", "/admin/v2/schemas/{topic}/schemas", "All versions").with(TOPIC).example("orders"),
        Verb::get("metadata", "/admin/v2/schemas/{topic}/metadata", "Numbers and hashes of all versions").with(TOPIC).example("orders"),
        from_file(Verb::post("upload", "/admin/v2/schemas/{topic}/schema", "Add a version, unless it is there")),
        from_file(Verb::post("compatibility", "/admin/v2/schemas/{topic}/compatibility", "Whether a schema might be added")),
        Verb::delete("delete", "/admin/v2/schemas/{topic}/schema", "Hide all versions").with(TOPIC).with(force).example("orders"),
    ];
    Noun::new("schemas", "Schemas of topics", verbs)
}

fn from_file(verb: Verb) -> Verb {
    let file = Arg::flag("filename", Kind::JsonFile, "JSON: {\"type\": \"AVRO\", \"schema\": \"…\", \"properties\": {}}");
    verb.with(TOPIC).with(file.short('f').also(&["file"]).needed().to(To::Body)).example("orders --filename order.json")
}
