//! `geminga admin namespaces`

use super::{ACTIONS, FORCE, NAMESPACE, ROLE, SUBSCRIPTION, TENANT, policies};
use crate::remote::verb::{Arg, Kind, Noun, To, Verb};

const BUNDLE: Arg = Arg::flag("bundle", Kind::Text, "A bundle, as in 0x00000000_0x40000000").short('b');

pub(super) fn noun() -> Noun {
    let mut verbs = life();
    verbs.extend(actions());
    verbs.extend(permissions());
    verbs.extend(properties());
    verbs.extend(policies::of_namespaces());
    Noun::new("namespaces", "Namespaces and their policies", verbs)
}

fn life() -> Vec<Verb> {
    let one = "/admin/v2/namespaces/{namespace}";
    let bundles = Arg::flag("bundles", Kind::Integer, "Number of bundles").short('b').query("bundles");
    let clusters = Arg::flag("clusters", Kind::List, "Clusters that it is in").short('c').field("replication_clusters");
    let mode = Arg::flag("mode", Kind::OneOf(&["PERSISTENT", "NON_PERSISTENT", "ALL"]), "Which topics").query("mode");
    vec![
        Verb::get("list", "/admin/v2/namespaces/{tenant}", "Names of a tenant's namespaces").with(TENANT).example("public"),
        Verb::get("topics", format!("{one}/topics"), "Names of its topics").with(NAMESPACE).with(mode).example("public/default"),
        Verb::get("bundles", format!("{one}/bundles"), "Its bundles").with(NAMESPACE).example("public/default"),
        Verb::get("policies", one, "All its policies").with(NAMESPACE).example("public/default"),
        Verb::put("create", one, "Add a namespace").with(NAMESPACE).with(bundles).with(clusters).example("public/orders"),
        Verb::delete("delete", one, "Remove a namespace without topics").with(NAMESPACE).with(FORCE).example("public/orders"),
    ]
}

fn actions() -> Vec<Verb> {
    let one = "/admin/v2/namespaces/{namespace}";
    let unload = Arg::flag("unload", Kind::Yes, "Let go of its topics").short('u').query("unload");
    let subscription = Arg { needed: false, ..SUBSCRIPTION };
    vec![
        Verb::put("unload", format!("{one}/unload"), "Let go of its topics; their clients come back")
            .with(NAMESPACE)
            .with(BUNDLE)
            .or_if("bundle", "/admin/v2/namespaces/{namespace}/{bundle}/unload")
            .example("public/default"),
        Verb::put("split-bundle", format!("{one}/{{bundle}}/split"), "Make two bundles of one")
            .with(NAMESPACE)
            .with(BUNDLE.needed())
            .with(unload)
            .example("public/default --bundle 0x00000000_0x40000000"),
        Verb::post("clear-backlog", format!("{one}/clearBacklog"), "Acknowledge what its subscriptions have not had")
            .with(NAMESPACE)
            .with(subscription)
            .or_if("subscription", "/admin/v2/namespaces/{namespace}/clearBacklog/{subscription}")
            .example("public/default --subscription workers"),
        Verb::post("unsubscribe", format!("{one}/unsubscribe/{{subscription}}"), "Remove a subscription from all its topics")
            .with(NAMESPACE)
            .with(SUBSCRIPTION)
            .example("public/default --subscription workers"),
        Verb::get("get-clusters", format!("{one}/replication"), "Clusters that it is in").with(NAMESPACE).example("public/default"),
        Verb::post("set-clusters", format!("{one}/replication"), "Set the clusters that it is in")
            .with(NAMESPACE)
            .with(Arg::flag("clusters", Kind::List, "Names").short('c').needed().to(To::Body))
            .example("public/default --clusters standalone"),
    ]
}

fn permissions() -> Vec<Verb> {
    let one = "/admin/v2/namespaces/{namespace}/permissions";
    let roles = Arg::flag("roles", Kind::List, "Roles that may use it").needed().to(To::Body);
    vec![
        Verb::get("permissions", one, "Who may do what").with(NAMESPACE).example("public/default"),
        Verb::post("grant-permission", format!("{one}/{{role}}"), "Replace what a role may do")
            .with(NAMESPACE)
            .with(ROLE)
            .with(ACTIONS.to(To::Body))
            .example("public/default --role app --actions produce,consume"),
        Verb::delete("revoke-permission", format!("{one}/{{role}}"), "Take everything from a role")
            .with(NAMESPACE)
            .with(ROLE)
            .example("public/default --role app"),
        Verb::get("subscription-permission", format!("{one}/subscription"), "Subscriptions that belong to roles")
            .with(NAMESPACE)
            .example("public/default"),
        Verb::post("grant-subscription-permission", format!("{one}/subscription/{{subscription}}"), "Give a subscription to roles")
            .with(NAMESPACE)
            .with(SUBSCRIPTION)
            .with(roles)
            .example("public/default --subscription workers --roles app"),
        Verb::delete("revoke-subscription-permission", format!("{one}/subscription/{{subscription}}/{{role}}"), "Take it back")
            .with(NAMESPACE)
            .with(SUBSCRIPTION)
            .with(ROLE)
            .example("public/default --subscription workers --role app"),
    ]
}

fn properties() -> Vec<Verb> {
    let one = "/admin/v2/namespaces/{namespace}";
    let key = Arg::flag("key", Kind::Text, "Name of the property").short('k').needed();
    let value = Arg::flag("value", Kind::Text, "Its value").short('v').needed();
    let pairs = Arg::flag("properties", Kind::Pairs, "Properties").short('p').needed().to(To::Body);
    vec![
        Verb::get("get-properties", format!("{one}/properties"), "All properties").with(NAMESPACE).example("public/default"),
        Verb::put("set-properties", format!("{one}/properties"), "Set properties")
            .with(NAMESPACE)
            .with(pairs)
            .example("public/default --properties team=orders"),
        Verb::delete("clear-properties", format!("{one}/properties"), "Remove all properties").with(NAMESPACE).example("public/default"),
        Verb::get("get-property", format!("{one}/property/{{key}}"), "One property")
            .with(NAMESPACE)
            .with(key)
            .example("public/default --key team"),
        Verb::put("set-property", format!("{one}/property/{{key}}/{{value}}"), "Set one property")
            .with(NAMESPACE)
            .with(key)
            .with(value)
            .example("public/default --key team --value orders"),
        Verb::delete("remove-property", format!("{one}/property/{{key}}"), "Remove one property")
            .with(NAMESPACE)
            .with(key)
            .example("public/default --key team"),
    ]
}
