//! The rows of the route table that slots come to.

use std::sync::LazyLock;

use hyper::Method;

use super::slot::{Level, Slot};
use super::{doors, table};
use crate::request::Call;
use crate::routes::{Answer, Class, Handler, Route};

/// What is done to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Show,
    Set,
    Unset,
}

/// Carries a call on a slot out.
pub(crate) fn answer(act: Act, slot: &'static Slot, level: Level, call: Call) -> Answer {
    match act {
        Act::Show => Box::pin(doors::show(call, slot, level)),
        Act::Set => Box::pin(doors::set(call, slot, level)),
        Act::Unset => Box::pin(doors::unset(call, slot, level)),
    }
}

static ROWS: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let of = |level| table::SLOTS.iter().flat_map(move |slot| rows_of(slot, level));
    of(Level::Namespace).chain(of(Level::Topic)).collect()
});

/// The rows of all slots.
pub(crate) fn rows() -> &'static [Route] {
    &ROWS
}

fn rows_of(slot: &'static Slot, level: Level) -> Vec<Route> {
    let Some(door) = slot.door(level) else { return Vec::new() };
    let row = |method, suffix: &str, act, summary: String| Route {
        method,
        // Once in the life of a process.
        path: Box::leak(format!("{}/{suffix}", prefix(level)).into_boxed_str()),
        handler: Handler::Policy(act, slot, level),
        class: Class::TenantAdmin,
        mark: slot.mark,
        summary: Box::leak(summary.into_boxed_str()),
    };
    let show = row(Method::GET, door.shown(), Act::Show, format!("Read {}; `applied`", slot.what));
    let set = row(door.set_by(), door.suffix, Act::Set, format!("Say {}", slot.what));
    let below = match level {
        Level::Namespace => "the configuration",
        Level::Topic => "the namespace",
    };
    let unset = door.unset_suffix().map(|suffix| row(Method::DELETE, suffix, Act::Unset, format!("Leave it to {below}")));
    [Some(show), Some(set), unset].into_iter().flatten().collect()
}

fn prefix(level: Level) -> &'static str {
    match level {
        Level::Namespace => "/admin/v2/namespaces/{tenant}/{namespace}",
        Level::Topic => "/admin/v2/{domain}/{tenant}/{namespace}/{topic}",
    }
}
