//! `geminga admin clusters`

use crate::remote::verb::{Arg, Kind, Noun, Verb};

const CLUSTER: Arg = Arg::place("cluster", Kind::Text, "Name of the cluster");

pub(super) fn noun() -> Noun {
    let one = "/admin/v2/clusters/{cluster}";
    let verbs = vec![
        Verb::get("list", "/admin/v2/clusters", "Names of the clusters"),
        Verb::get("get", one, "Where a cluster is reached").with(CLUSTER).example("standalone"),
        described(Verb::put("create", one, "Add a cluster")),
        described(Verb::post("update", one, "Replace what is known of a cluster")),
        Verb::delete("delete", one, "Remove a cluster that nobody uses").with(CLUSTER).example("west"),
    ];
    Noun::new("clusters", "Clusters", verbs)
}

fn described(verb: Verb) -> Verb {
    verb.with(CLUSTER)
        .with(Arg::flag("url", Kind::Text, "http:// URL of its brokers").field("serviceUrl"))
        .with(Arg::flag("url-secure", Kind::Text, "The same over TLS").field("serviceUrlTls"))
        .with(Arg::flag("broker-url", Kind::Text, "pulsar:// URL of its brokers").field("brokerServiceUrl"))
        .with(Arg::flag("broker-url-secure", Kind::Text, "The same over TLS").field("brokerServiceUrlTls"))
        .body("{}")
        .example("west --url http://west:8080 --broker-url pulsar://west:6650")
}
