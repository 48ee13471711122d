//! `geminga admin brokers`, `broker-stats` and `resourcegroups`

use crate::remote::verb::{Arg, Kind, Noun, Verb};

pub(super) fn noun() -> Noun {
    let config = Arg::flag("config", Kind::Text, "The key").needed();
    let value = Arg::flag("value", Kind::Text, "Its value").needed();
    let cluster = Arg::place("cluster", Kind::Text, "Name of the cluster");
    let url = Arg::flag("url", Kind::Text, "HOST:PORT of the broker").needed();
    let key = "/admin/v2/brokers/configuration/{config}";
    let verbs = vec![
        Verb::get("list", "/admin/v2/brokers/{cluster}", "Brokers of a cluster").with(cluster).example("standalone"),
        Verb::get("healthcheck", "/admin/v2/brokers/health", "ok, when a message could be written and read back"),
        Verb::get("ready", "/admin/v2/brokers/ready", "ok, as soon as requests are served"),
        Verb::get("version", "/admin/v2/brokers/version", "The level of Pulsar's API"),
        Verb::get("leader-broker", "/admin/v2/brokers/leaderBroker", "The broker that leads the cluster"),
        Verb::get("namespaces", "/admin/v2/brokers/{cluster}/{url}/ownedNamespaces", "Bundles that a broker serves")
            .with(cluster)
            .with(url)
            .example("standalone --url localhost:8080"),
        Verb::get("get-runtime-config", "/admin/v2/brokers/configuration/runtime", "All settings in effect"),
        Verb::get("get-internal-config", "/admin/v2/brokers/internal-configuration", "Where metadata and ledgers are"),
        Verb::get("list-dynamic-config", "/admin/v2/brokers/configuration", "Keys that can be changed while the broker runs"),
        Verb::get("get-all-dynamic-config", "/admin/v2/brokers/configuration/values", "Settings that were changed while the broker runs"),
        Verb::post("update-dynamic-config", "/admin/v2/brokers/configuration/{config}/{value}", "Change a setting while the broker runs")
            .with(config)
            .with(value)
            .example("--config maxConcurrentLookupRequest --value 1000"),
        Verb::delete("delete-dynamic-config", key, "Back to what the configuration says")
            .with(config)
            .example("--config maxConcurrentLookupRequest"),
        Verb::get("backlog-quota-check", "/admin/v2/brokers/backlog-quota-check", "Look at all backlogs now"),
    ];
    Noun::new("brokers", "Brokers and their settings", verbs)
}

pub(super) fn stats() -> Noun {
    let verbs = vec![
        Verb::get("topics", "/admin/v2/broker-stats/topics", "Numbers of all topics").also(&["destinations"]),
        Verb::get("monitoring-metrics", "/admin/v2/broker-stats/metrics", "Numbers of all namespaces"),
        Verb::get("load-report", "/admin/v2/broker-stats/load-report", "How busy the broker is"),
    ];
    Noun::new("broker-stats", "Numbers of a broker", verbs)
}

pub(super) fn resource_groups() -> Noun {
    let one = "/admin/v2/resourcegroups/{group}";
    let group = Arg::place("group", Kind::Text, "Name of the group");
    let put = Verb::put("create", one, "Add or replace a group")
        .also(&["update"])
        .with(group)
        .with(Arg::flag("msg-publish-rate", Kind::Integer, "Messages a second").field("publishRateInMsgs"))
        .with(Arg::flag("byte-publish-rate", Kind::Bytes, "Bytes a second").field("publishRateInBytes"))
        .with(Arg::flag("msg-dispatch-rate", Kind::Integer, "Messages a second").field("dispatchRateInMsgs"))
        .with(Arg::flag("byte-dispatch-rate", Kind::Bytes, "Bytes a second").field("dispatchRateInBytes"))
        .body("{}")
        .example("small --msg-publish-rate 1000");
    let verbs = vec![
        Verb::get("list", "/admin/v2/resourcegroups", "Names of the groups"),
        Verb::get("get", one, "Limits of a group").with(group).example("small"),
        put,
        Verb::delete("delete", one, "Remove a group").with(group).example("small"),
    ];
    Noun::new("resourcegroups", "Limits that namespaces share", verbs).also(&["resource-groups"])
}
