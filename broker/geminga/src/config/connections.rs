//! Event loops, connections and what each connection may ask for.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use super::amounts::{ByteSize, bytes, microseconds, milliseconds, seconds};
use super::forms::{LimitOrOff, Number};
use super::machine::{default_io_threads, processors};
use super::table::settings;

settings! {
    /// Event loops, connections and their limits.
    pub struct Connections, "Connections" {
        /// Event loops that serve every connection: Pulsar, plugin and HTTP. The default is min(2n, max(8, n/2)) for n processors, as affinity
        /// and the control group's quota leave them; a number written here wins, but loops beyond n stay asleep: a loop never waits for the disk, so
        /// more of them would only make batches smaller. Too few: the busiest loop stays at 100 % while backlogs grow. Leave it blank unless you see that.
        io_threads: NonZeroUsize = "numIOThreads", Number(NonZeroUsize::MIN, MAX_LOOPS), default default_io_threads(processors()),
            told "min(2n, max(8, n/2)) for n processors";
        /// How much time a busy event loop lets pass from one turn to the next, in which it gathers what comes. More saves processor time on wake-ups,
        /// system calls and syncs and adds as much to latency at each of four stations; a broker with little to do never waits. 0 is never to wait.
        turn_interval: Duration = "ioTurnIntervalMicros", microseconds(0, 10_000), default Duration::from_micros(800),
            dynamic "from the next turn on; the log keeps its own until the next start";
        /// Connections of Pulsar's protocol at most, all together; further ones are refused.
        max_connections: Option<NonZeroU32> = "brokerMaxConnections", LimitOrOff, default None;
        /// Connections of Pulsar's protocol at most from one address.
        max_connections_per_ip: Option<NonZeroU32> = "brokerMaxConnectionsPerIp", LimitOrOff, default None;
        /// A connection that was silent this long is pinged; one that stays silent as long again is closed.
        keep_alive: Duration = "keepAliveIntervalSeconds", seconds(1, 86_400), default Duration::from_secs(30), dynamic "at once";
        /// A connection that has not said CONNECT after this time is closed.
        handshake_timeout: Duration = "connectionHandshakeTimeoutMs", milliseconds(100, 600_000), default Duration::from_secs(10),
            dynamic "at once";
        /// Largest payload of one message; a frame may be 10 KiB larger. Clients learn it when they connect.
        max_message_size: ByteSize = "maxMessageSize", bytes(1_024, 1 << 30), default ByteSize::mib(5);
        /// Publishes of one connection that wait for the disk; beyond it the connection is not read until half of them are answered.
        max_pending_publishes: NonZeroU32 = "maxPendingPublishRequestsPerConnection", Number(NonZeroU32::MIN, NonZeroU32::MAX),
            default const { NonZeroU32::new(1_000).unwrap() }, dynamic "at once";
        /// Bytes that wait to be sent to one connection before its consumers get nothing more; a slow reader holds no more memory than this.
        out_buffer_high: ByteSize = "connectionOutBufferBytes", bytes(16 << 10, 1 << 30), default ByteSize::mib(1);
        /// A connection whose peer took nothing at all for this long while bytes were waiting is closed.
        write_stall_timeout: Duration = "connectionWriteStallTimeoutSeconds", seconds(1, 86_400), default Duration::from_secs(60),
            dynamic "at once";
        /// Producers and consumers of one connection at most; further ones are refused. Each costs about a kilobyte.
        max_clients_per_connection: NonZeroU32 = "maxProducersAndConsumersPerConnection", Number(NonZeroU32::MIN, NonZeroU32::MAX),
            default const { NonZeroU32::new(100_000).unwrap() }, dynamic "for those that come later";
        /// Lookups and partition questions in flight at most; further ones are answered with TooManyRequests.
        max_lookups: NonZeroU32 = "maxConcurrentLookupRequest", Number(NonZeroU32::MIN, NonZeroU32::MAX),
            default const { NonZeroU32::new(50_000).unwrap() }, dynamic "at once";
        /// Topics being loaded at the same time at most; further ones wait. Never more than controlThreads minus one.
        max_topic_loads: NonZeroU32 = "maxConcurrentTopicLoadRequest", Number(NonZeroU32::MIN, NonZeroU32::MAX),
            default const { NonZeroU32::new(5_000).unwrap() };
    }
}

const MAX_LOOPS: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();
