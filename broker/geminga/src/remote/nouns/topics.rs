//! `geminga admin topics`

use super::{ACTIONS, FORCE, NAMESPACE, ROLE, SUBSCRIPTION, TOPIC};
use crate::remote::verb::{Arg, Kind, Noun, Show, To, Verb};

const PARTITIONS: Arg = Arg::flag("partitions", Kind::Integer, "Number of partitions").short('p').needed().to(To::Body);
const ONE: &str = "/admin/v2/{topic}";

pub(super) fn noun() -> Noun {
    let mut verbs = life();
    verbs.extend(numbers());
    verbs.extend(messages());
    verbs.extend(subscriptions());
    verbs.extend(positions());
    verbs.extend(upkeep());
    verbs.extend(permissions());
    Noun::new("topics", "Topics and their subscriptions", verbs).also(&["persistent"])
}

fn on(verb: fn(String, String, &'static str) -> Verb, name: &str, rest: &str, about: &'static str) -> Verb {
    verb(name.to_owned(), format!("{ONE}{rest}"), about).with(TOPIC).example("orders")
}

fn get(name: &str, rest: &str, about: &'static str) -> Verb {
    on(Verb::get, name, rest, about)
}

fn put(name: &str, rest: &str, about: &'static str) -> Verb {
    on(Verb::put, name, rest, about)
}

fn post(name: &str, rest: &str, about: &'static str) -> Verb {
    on(Verb::post, name, rest, about)
}

fn delete(name: &str, rest: &str, about: &'static str) -> Verb {
    on(Verb::delete, name, rest, about)
}

fn life() -> Vec<Verb> {
    let domain = Arg::flag("topic-domain", Kind::OneOf(&["persistent", "non-persistent"]), "Which topics").short('t');
    let domain = domain.also(&["td"]).or("persistent");
    let list = |name: &str, rest: &str, about: &'static str| {
        let verb = Verb::get(name, format!("/admin/v2/{{topic-domain}}/{{namespace}}{rest}"), about);
        verb.with(NAMESPACE).with(domain).example("public/default")
    };
    vec![
        list("list", "", "Names of a namespace's topics, partitions one by one"),
        list("list-partitioned-topics", "/partitioned", "Names of a namespace's partitioned topics"),
        put("create", "", "Add a topic without partitions").with(Arg::flag("metadata", Kind::Pairs, "Properties").short('m').to(To::Body)),
        put("create-partitioned-topic", "/partitions", "Add a partitioned topic").with(PARTITIONS).example("orders --partitions 4"),
        post("update-partitioned-topic", "/partitions", "Raise the number of partitions").with(PARTITIONS).example("orders --partitions 8"),
        post("create-missed-partitions", "/createMissedPartitions", "Create partitions that are missing"),
        get("get-partitioned-topic-metadata", "/partitions", "The number of partitions"),
        delete("delete", "", "Remove a topic without partitions, or one partition").with(FORCE),
        delete("delete-partitioned-topic", "/partitions", "Remove a partitioned topic").with(FORCE),
        Verb::get("lookup", "/lookup/v2/topic/{topic}", "Where a topic is served").with(TOPIC).example("orders"),
        Verb::get("bundle-range", "/lookup/v2/topic/{topic}/bundle", "The bundle a topic is in").with(TOPIC).example("orders"),
        get("get-properties", "/properties", "Its properties"),
        put("update-properties", "/properties", "Set properties")
            .with(Arg::flag("property", Kind::Pairs, "Properties").short('p').needed().to(To::Body))
            .example("orders --property team=sales"),
        delete("remove-properties", "/properties", "Remove a property")
            .with(Arg::flag("key", Kind::Text, "Its name").short('k').needed().query("key"))
            .example("orders --key team"),
    ]
}

fn numbers() -> Vec<Verb> {
    let precise = Arg::flag("get-precise-backlog", Kind::Yes, "Count batches by their messages").also(&["gpb"]).query("getPreciseBacklog");
    let size = Arg::flag("get-subscription-backlog-size", Kind::Yes, "With bytes").also(&["sbs"]).query("subscriptionBacklogSize");
    let earliest = Arg::flag("get-earliest-time-in-backlog", Kind::Yes, "With the age of the oldest message").also(&["etb"]);
    let with_flags = |verb: Verb| verb.with(precise).with(size).with(earliest.query("getEarliestTimeInBacklog"));
    let each = Arg::flag("per-partition", Kind::Yes, "Each partition's too").query("perPartition");
    vec![
        with_flags(get("stats", "/stats", "Numbers of a topic")).show(Show::TopicStats),
        with_flags(get("partitioned-stats", "/partitioned-stats", "Numbers of a partitioned topic")).with(each).show(Show::TopicStats),
        get("stats-internal", "/internalStats", "Ledgers and cursors of a topic").also(&["internal-stats"]),
        get("partitioned-stats-internal", "/partitioned-internalStats", "Ledgers and cursors of all partitions"),
        get("info-internal", "/internal-info", "Ledgers and cursors as they are stored"),
    ]
}

fn messages() -> Vec<Verb> {
    let ledger = Arg::flag("ledger-id", Kind::Integer, "The ledger").short('l').also(&["ledgerId"]).needed();
    let entry = Arg::flag("entry-id", Kind::Integer, "The entry").short('e').also(&["entryId"]).needed();
    let since = Arg::flag("datetime", Kind::Integer, "Milliseconds since 1970").short('d').also(&["timestamp"]).needed();
    let from = Arg::flag("initial-position", Kind::OneOf(&["latest", "earliest"]), "Counted from where").short('i');
    let nth = Arg::flag("message-position", Kind::Integer, "Which one, from 1").short('m').or("1").query("messagePosition");
    let id = Arg::flag("message-id", Kind::MessageId, "From this message on").short('m').also(&["messageId"]).needed().to(To::Body);
    vec![
        get("last-message-id", "/lastMessageId", "The place of the last message"),
        get("get-message-id", "/messageid/{datetime}", "The first message that was published at a time, or after it")
            .with(since)
            .example("orders --datetime 1767225600000"),
        get("get-message-by-id", "/ledger/{ledger-id}/entry/{entry-id}", "A message")
            .with(ledger)
            .with(entry)
            .show(Show::Message)
            .example("orders --ledger-id 3 --entry-id 0"),
        get("examine-messages", "/examinemessage", "The n-th message from the beginning or the end")
            .with(from.or("latest").query("initialPosition"))
            .with(nth)
            .show(Show::Message)
            .example("orders --initial-position earliest"),
        put("get-backlog-size", "/backlogSize", "Bytes from a message to the end").with(id).example("orders --message-id 3:0"),
    ]
}

fn subscriptions() -> Vec<Verb> {
    let place = Arg::flag("message-id", Kind::MessageId, "Where it begins").short('m').also(&["messageId"]).or("latest").to(To::Body);
    let pairs = Arg::flag("property", Kind::Pairs, "Properties").short('p').needed().to(To::Body);
    vec![
        get("subscriptions", "/subscriptions", "Names of the subscriptions"),
        put("create-subscription", "/subscription/{subscription}", "Add a subscription")
            .with(SUBSCRIPTION)
            .with(place)
            .example("orders --subscription workers --message-id earliest"),
        delete("unsubscribe", "/subscription/{subscription}", "Remove a subscription")
            .with(SUBSCRIPTION)
            .with(FORCE)
            .example("orders --subscription workers"),
        get("get-subscription-properties", "/subscription/{subscription}/properties", "Its properties")
            .with(SUBSCRIPTION)
            .example("orders --subscription workers"),
        put("update-subscription-properties", "/subscription/{subscription}/properties", "Replace its properties")
            .with(SUBSCRIPTION)
            .with(pairs)
            .example("orders --subscription workers --property team=sales"),
        post("analyze-backlog", "/subscription/{subscription}/analyzeBacklog", "Count what it has not acknowledged, by reading it")
            .with(SUBSCRIPTION)
            .example("orders --subscription workers"),
    ]
}

fn positions() -> Vec<Verb> {
    let count = Arg::flag("count", Kind::Integer, "How many messages").short('n');
    let age = Arg::flag("expireTime", Kind::Seconds, "Older than this").short('t').also(&["expire-time"]).needed();
    let ago = Arg::flag("time", Kind::Ago, "To what came since, as in 1h").short('t');
    let id = Arg::flag("message-id", Kind::MessageId, "To this message").short('m').also(&["messageId"]).to(To::Body);
    let example = "orders --subscription workers";
    vec![
        get("peek-messages", "/subscription/{subscription}/position/{number}", "Messages that come next; the subscription stays as it is")
            .with(SUBSCRIPTION)
            .with(Arg { needed: false, ..count }.or("1"))
            .show(Show::Message)
            .example("orders --subscription workers --count 3"),
        post("skip", "/subscription/{subscription}/skip/{count}", "Acknowledge the next messages unread")
            .with(SUBSCRIPTION)
            .with(count.needed())
            .example("orders --subscription workers --count 10"),
        post("clear-backlog", "/subscription/{subscription}/skip_all", "Acknowledge all messages unread")
            .also(&["skip-all"])
            .with(SUBSCRIPTION)
            .example(example),
        post("expire-messages", "/subscription/{subscription}/expireMessages/{expireTime}", "Acknowledge old messages unread")
            .with(SUBSCRIPTION)
            .with(age)
            .example("orders --subscription workers --expireTime 2h"),
        post("expire-messages-all-subscriptions", "/all_subscription/expireMessages/{expireTime}", "The same for all subscriptions")
            .with(age)
            .example("orders --expireTime 2h"),
        post("reset-cursor", "/subscription/{subscription}/resetcursor/{time}", "Go back, or forward")
            .with(SUBSCRIPTION)
            .with(ago)
            .with(id)
            .or_if("message-id", "/admin/v2/{topic}/subscription/{subscription}/resetcursor")
            .example("orders --subscription workers --time 1h"),
    ]
}

fn upkeep() -> Vec<Verb> {
    vec![
        put("unload", "/unload", "Let go of a topic; its clients come back"),
        post("terminate", "/terminate", "Take no more messages, for ever"),
        post("partitioned-terminate", "/terminate/partitions", "The same for all partitions"),
        put("compact", "/compaction", "Keep the last message of each key"),
        get("compaction-status", "/compaction", "How the last compaction went"),
        post("trim", "/trim", "Remove ledgers that nobody needs").also(&["trim-topic"]),
        delete("truncate", "/truncate", "Remove all messages"),
    ]
}

fn permissions() -> Vec<Verb> {
    vec![
        get("permissions", "/permissions", "Who may do what"),
        post("grant-permission", "/permissions/{role}", "Replace what a role may do")
            .with(ROLE)
            .with(ACTIONS.to(To::Body))
            .example("orders --role app --actions produce"),
        delete("revoke-permission", "/permissions/{role}", "Take everything from a role").with(ROLE).example("orders --role app"),
    ]
}
