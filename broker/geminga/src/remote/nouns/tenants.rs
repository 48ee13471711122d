//! `geminga admin tenants`

use super::{FORCE, TENANT};
use crate::remote::verb::{Arg, Kind, Noun, Verb};

pub(super) fn noun() -> Noun {
    let one = "/admin/v2/tenants/{tenant}";
    let verbs = vec![
        Verb::get("list", "/admin/v2/tenants", "Names of the tenants"),
        Verb::get("get", one, "Who administers a tenant, and where it lives").with(TENANT).example("public"),
        described(Verb::put("create", one, "Add a tenant")),
        described(Verb::post("update", one, "Replace what is known of a tenant")),
        Verb::delete("delete", one, "Remove a tenant without namespaces").with(TENANT).with(FORCE).example("acme"),
    ];
    Noun::new("tenants", "Tenants", verbs)
}

fn described(verb: Verb) -> Verb {
    let clusters = Arg::flag("allowed-clusters", Kind::List, "Clusters that it may use");
    verb.with(TENANT)
        .with(Arg::flag("admin-roles", Kind::List, "Roles that administer it").short('r').field("adminRoles"))
        .with(clusters.short('c').or("standalone").field("allowedClusters"))
        .example("acme --admin-roles ops --allowed-clusters standalone")
}
