//! The rows of our own API. To serve another resource is to add its rows here and a file beside this one; `README.md` does not need to
//! know, the OpenAPI document does it by itself.

use hyper::Method;

use super::{alarms, audit, config, definitions, events, lists, messages, openapi, operations, overview, series, whoami};
use crate::routes::{Class, Handler, Mark, Route, rows};

#[rustfmt::skip]
pub(crate) static ROUTES: &[Route] = rows![
    Own    Anyone      GET    "/geminga/openapi.json" => openapi::own, "This API as an OpenAPI 3.1 document";
    Own    Anyone      GET    "/geminga/openapi/pulsar-v2.json" => openapi::pulsars, "What is served of Pulsar's API as an OpenAPI 3.1 document";
    Own    Anyone      GET    "/geminga/v1" => overview::capabilities, "What this API can do: version, features, limits, links";
    Own    Known       GET    "/geminga/v1/whoami" => whoami::whoami, "Who asks, and what they may do";

    Own    Superuser   GET    "/geminga/v1/overview" => overview::overview, "The broker at one glance: rates, counts, storage, cache, loops, alarms";
    Own    Superuser   GET    "/geminga/v1/alarms" => alarms::list, "What an operator should act on; `limit`, `cursor`, `sort`, `q`, `filter`, `fields`";
    Own    Superuser   GET    "/geminga/v1/series" => series::series, "Numbers over time; `metric`, `scope`, `range`, `step`";
    Own    Superuser   GET    "/geminga/v1/topics" => lists::topics, "All topics, partitions folded; `limit`, `cursor`, `sort`, `q`, `filter`, `fields`";
    Own    TopicUser   GET    "/geminga/v1/topics/{domain}/{tenant}/{namespace}/{topic}" => lists::topic, "A topic as a whole: numbers, ledgers and cursors, part by part";
    Own    Superuser   GET    "/geminga/v1/subscriptions" => lists::subscriptions, "Subscriptions of loaded topics; `limit`, `cursor`, `sort`, `q`, `filter`, `fields`";
    Own    Superuser   GET    "/geminga/v1/producers" => lists::producers, "Producers; `limit`, `cursor`, `sort`, `q`, `filter`, `fields`";
    Own    Superuser   GET    "/geminga/v1/consumers" => lists::consumers, "Consumers; `limit`, `cursor`, `sort`, `q`, `filter`, `fields`";
    Own    Superuser   GET    "/geminga/v1/connections" => lists::connections, "Connections of the Pulsar protocol; `limit`, `cursor`, `sort`, `q`, `filter`, `fields`";
    Own    Superuser   POST   "/geminga/v1/connections/{connection}/close" => lists::close_connection, "Close a connection; its client comes back";
    Own    Superuser   GET    "/geminga/v1/messages" => messages::browse, "Messages of a topic, read without a subscription; `topic`, `from`, `limit`, `partition`, `key`, `contains`, `decode`";

    Own    Superuser   GET    "/geminga/v1/definitions" => definitions::export, "Tenants, namespaces, policies and topics as one document; `tenant`";
    Own    Superuser   POST   "/geminga/v1/definitions" => definitions::import, "Bring the broker to what a document says; `mode`, `dryRun`";
    Own    Superuser   GET    "/geminga/v1/operations" => operations::list, "Work that takes its time; `limit`, `cursor`, `sort`, `q`, `filter`, `fields`";
    Own    Superuser   GET    "/geminga/v1/operations/{id}" => operations::get, "How far one is";
    Own    Superuser   DELETE "/geminga/v1/operations/{id}" => operations::cancel, "Call one off";

    Own    Superuser   GET    "/geminga/v1/config" => config::list, "Settings; `source`, `dynamic`, `limit`, `cursor`, `sort`, `q`, `filter`, `fields`";
    Own    Superuser   GET    "/geminga/v1/config/export" => config::export, "What is set, for a file or for a program; `format`";
    Own    Superuser   GET    "/geminga/v1/config/{key}" => config::get, "One setting";
    Own    Superuser   PUT    "/geminga/v1/config/{key}" => config::put, "Change a setting while the broker runs";
    Own    Superuser   DELETE "/geminga/v1/config/{key}" => config::delete, "Take back what was changed while the broker ran";
    Own    Superuser   POST   "/geminga/v1/config:apply" => config::apply, "Change several settings, all or none";
    Own    Superuser   POST   "/geminga/v1/config:validate" => config::validate, "What is wrong with a file of settings";

    Own    Superuser   GET    "/geminga/v1/events" => events::stream, "What happens, as it happens; `channels`, `intervalMs`, `ticket`, `lastEventId`";
    Own    Superuser   POST   "/geminga/v1/events/tickets" => whoami::ticket, "A ticket for one stream of events, for those who cannot send a header with it";
    Own    Superuser   GET    "/geminga/v1/audit" => audit::list, "Who did what, the newest first; `since`, `principal`, `resource`, `limit`, `cursor`";
];
