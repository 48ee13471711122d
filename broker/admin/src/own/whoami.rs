//! Who asks, and what they may do; and tickets for those who cannot send their credentials along.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use metadata::tenants;
use serde_json::json;
use server::Identity;

use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::Call;

/// How long a ticket is good for, once.
const TICKET_LASTS: Duration = Duration::from_secs(30);
const MOST_TICKETS: usize = 256;

/// GET: who asks, and what they may do.
pub(crate) async fn whoami(call: Call) -> Result<Reply, Refusal> {
    let asks = call.handle().asks_who();
    let principal = call.who.as_ref().map(|who| who.original.as_ref().unwrap_or(&who.role).to_string());
    let superuser = call.handle().is_superuser(call.who.as_ref());
    let role = principal.clone().unwrap_or_default();
    // With so many tenants that reading them takes long, the list is left out rather than waited for.
    let administers = match superuser {
        true => None,
        false => Some(call.handle().control(move |m| administered(m, &role)).await??),
    };
    let roles: Vec<&str> = match (superuser, &administers) {
        (true, _) => vec!["superuser"],
        (false, Some(tenants)) if !tenants.is_empty() => vec!["tenant-admin"],
        _ => Vec::new(),
    };
    Reply::json(&json!({
        "principal": principal,
        "method": call.who.as_ref().map_or("none", |who| who.method),
        "authentication": asks,
        "roles": roles,
        "administers": administers,
        "readOnly": call.options().read_only,
        "allowed": { "everything": superuser, "write": !call.options().read_only && (superuser || !roles.is_empty()) },
    }))
}

/// Tenants that a role administers; the first thousand are looked at.
fn administered(store: &dyn metadata::MetadataStore, role: &str) -> Result<Vec<String>, Refusal> {
    let mut found = Vec::new();
    for name in tenants::list(store)?.into_iter().take(1_000) {
        match tenants::get(store, &name) {
            Ok((tenant, _)) if tenant.admin_roles.iter().any(|admin| admin == role) => found.push(name),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(found)
}

/// Tickets that were given out.
#[derive(Default)]
pub(crate) struct Tickets(Mutex<Vec<Ticket>>);

struct Ticket {
    secret: String,
    until: Instant,
    who: Option<Identity>,
}

impl Tickets {
    fn give(&self, secret: String, who: Option<Identity>) -> Result<(), Refusal> {
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        tickets.retain(|ticket| ticket.until > now);
        if tickets.len() >= MOST_TICKETS {
            return Err(Refusal::too_many("As many tickets are out as may be", TICKET_LASTS.as_secs()));
        }
        tickets.push(Ticket { secret, until: now + TICKET_LASTS, who });
        Ok(())
    }

    /// Who was given this ticket; it is good once.
    pub(crate) fn redeem(&self, secret: &str) -> Option<Option<Identity>> {
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        tickets.retain(|ticket| ticket.until > now);
        let at = tickets.iter().position(|ticket| ticket.secret == secret)?;
        Some(tickets.swap_remove(at).who)
    }
}

/// POST: a ticket for one stream of events, for those who cannot send a header with it.
pub(crate) async fn ticket(call: Call) -> Result<Reply, Refusal> {
    let secret = call.handle().control(|_| server::random_name()).await?.map_err(Refusal::internal)?;
    call.site.own.tickets.give(secret.clone(), call.who.clone())?;
    Reply::json(&json!({ "ticket": secret, "expiresInMs": TICKET_LASTS.as_millis() as u64 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once() {
        let tickets = Tickets::default();
        tickets.give("s".into(), None).unwrap();
        assert_eq!(tickets.redeem("t"), None);
        assert_eq!(tickets.redeem("s"), Some(None));
        assert_eq!(tickets.redeem("s"), None);
    }

    #[test]
    fn tickets_are_not_given_without_end() {
        let tickets = Tickets::default();
        for n in 0..MOST_TICKETS {
            tickets.give(n.to_string(), None).unwrap();
        }
        assert_eq!(tickets.give("one more".into(), None).unwrap_err().status.as_u16(), 429);
    }
}
