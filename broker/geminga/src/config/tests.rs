//! What loading promises as a whole.

use super::amounts::ByteSize;
use super::listeners::BindAddress;
use super::sources::{File, Sources};
use super::*;

fn file(text: &str) -> Sources {
    Sources { file: Some(File { path: "broker.conf".to_owned(), text: text.to_owned() }), ..Sources::default() }
}

fn flags(pairs: &[(&str, &str)]) -> Sources {
    let flag = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned(), "--set".to_owned());
    Sources { flags: pairs.iter().map(flag).collect(), ..Sources::default() }
}

fn load(sources: &Sources) -> Loaded {
    Config::load(sources).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(sources: &Sources) -> String {
    Config::load(sources).expect_err("refused").to_string()
}

#[test]
fn a_value_knows_where_it_comes_from() {
    let mut sources = file("# a comment\nkeepAliveIntervalSeconds = 7\nclusterName=a\n");
    sources.variables = vec![("clusterName".into(), "b".into()), ("PULSAR_PREFIX_maxMessageSize".into(), "1048576".into())];
    sources.flags = vec![("numIOThreads".into(), "3".into(), "--set".into())];
    let loaded = load(&sources);
    let origin = |key| loaded.origin(key).map(ToString::to_string);
    assert_eq!(origin("keepAliveIntervalSeconds").as_deref(), Some("broker.conf:2"));
    assert_eq!(origin("clusterName").as_deref(), Some("env clusterName"));
    assert_eq!(origin("maxMessageSize").as_deref(), Some("env PULSAR_PREFIX_maxMessageSize"));
    assert_eq!(origin("numIOThreads").as_deref(), Some("--set"));
    assert_eq!(origin("webServicePort"), None);
    assert_eq!(loaded.config.network.cluster_name, "b");
    assert_eq!(loaded.config.connections.max_message_size, ByteSize::mib(1));
    assert_eq!(loaded.config.connections.io_threads.get(), 3);
}

#[test]
fn a_blank_value_is_the_default_and_a_blank_port_is_off() {
    let loaded = load(&file("numIOThreads=\nkeepAliveIntervalSeconds=5\nkeepAliveIntervalSeconds=\nwebServicePort=\n"));
    assert_eq!(loaded.config.connections.io_threads, Config::default().connections.io_threads);
    assert_eq!(loaded.config.connections.keep_alive, Config::default().connections.keep_alive);
    assert_eq!(loaded.config.network.http_port, None);
    assert_eq!(loaded.origin("keepAliveIntervalSeconds"), None);
}

#[test]
fn bad_values_are_told_all_at_once_with_key_value_source_and_what_is_allowed() {
    let mut sources = file("keepAliveIntervalSeconds=soon\nttlDurationDefaultInSeconds=never\nallowAutoTopicCreationType=some\n");
    sources.variables = vec![("GEMINGA_brokerServicePort".into(), "70000".into())];
    sources.flags = vec![("numIOThreads".into(), "0".into(), "--set numIOThreads=0".into())];
    let told = refusal(&sources);
    assert!(told.starts_with("5 settings are wrong:"), "{told}");
    for part in [
        "keepAliveIntervalSeconds=soon (broker.conf:1): allowed: seconds from 1 to 86400",
        "ttlDurationDefaultInSeconds=never (broker.conf:2): allowed: seconds; 0 or less switches it off",
        "allowAutoTopicCreationType=some (broker.conf:3): allowed: non-partitioned or partitioned",
        "brokerServicePort=70000 (env GEMINGA_brokerServicePort): allowed: a port",
        "numIOThreads=0 (--set numIOThreads=0): allowed: a number from 1 to 1024",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
}

#[test]
fn contradictions_are_told_with_both_values_and_beside_bad_ones() {
    let text = "managedLedgerMinLedgerRolloverTimeMinutes=300\nwebServicePort=6650\nmaxMessageSize=big\nlogSegmentSizeMB=8\n";
    let told = refusal(&file(text));
    assert!(told.starts_with("3 settings are wrong:"), "{told}");
    assert!(
        told.contains(
            "managedLedgerMinLedgerRolloverTimeMinutes=300 (broker.conf:1), managedLedgerMaxLedgerRolloverTimeMinutes=240 (default)"
        ),
        "{told}"
    );
    assert!(told.contains("brokerServicePort=6650 (default), webServicePort=6650 (broker.conf:2)"), "{told}");
    let told = refusal(&file("maxMessageSize=20000000\nlogSegmentSizeMB=8\nadvertisedAddress=0.0.0.0\n"));
    assert!(told.contains("maxMessageSize=20000000 (broker.conf:1), logSegmentSizeMB=8 (broker.conf:2)"), "{told}");
    assert!(told.contains("advertisedAddress=0.0.0.0 (broker.conf:3)"), "{told}");
    assert!(refusal(&file("internalListenerName=x\nadvertisedListeners=a:pulsar://h:1\n")).contains("internalListenerName=x"));
    assert!(refusal(&flags(&[("brokerServicePort", ""), ("webServicePort", "")])).contains("nobody could connect"));
}

#[test]
fn parts_of_the_memory_over_the_budget_are_refused_with_their_sources() {
    let told = refusal(&file("memoryBudgetMb=100\nmanagedLedgerCacheSizeMB=80\nmaxMessagePublishBufferSizeInMB=30\n"));
    assert!(told.contains("maxMessagePublishBufferSizeInMB=30 (broker.conf:3) + managedLedgerCacheSizeMB=80 (broker.conf:2)"), "{told}");
    assert!(told.contains("memoryBudgetMb=100 (broker.conf:1)"), "{told}");
}

#[test]
fn no_part_of_the_memory_is_ever_without_limit() {
    let text =
        "memoryBudgetMb=100\nmanagedLedgerMaxReadsInFlightSizeInMB=0\nmaxMessagePublishBufferSizeInMB=-1\nmanagedLedgerCacheSizeMB=0\n";
    let memory = load(&file(text)).config.memory;
    assert_eq!(memory.reads_in_flight, ByteSize::mib(10));
    assert_eq!(memory.publish_buffer, ByteSize::mib(25));
    assert_eq!(memory.cache, ByteSize::bytes(0));
}

#[test]
fn without_a_file_the_broker_is_reachable_from_this_machine_only() {
    let loaded = load(&Sources::default());
    assert_eq!(loaded.config.network.bind_address, BindAddress::Loopback);
    assert_eq!(loaded.config.network.advertised_address, "localhost");
    assert_eq!(loaded.advertises, None);
}

#[test]
fn all_addresses_advertise_the_host_name_and_say_so() {
    for sources in [file(""), flags(&[("bindAddress", "0.0.0.0")]), flags(&[("bindAddress", "::")])] {
        let loaded = Config::load_on(&sources, || "the-host".to_owned()).expect("loads");
        assert!(loaded.config.network.bind_address.is_any());
        assert_eq!(loaded.config.network.advertised_address, "the-host");
        assert!(loaded.advertises.expect("a note").contains("the-host"));
    }
}

#[test]
fn an_advertised_address_or_a_single_address_needs_no_note() {
    let named = load(&flags(&[("bindAddress", "0.0.0.0"), ("advertisedAddress", "example.org")]));
    assert_eq!((named.config.network.advertised_address.as_str(), named.advertises), ("example.org", None));
    let single = load(&flags(&[("bindAddress", "10.1.2.3")]));
    assert_eq!((single.config.network.advertised_address.as_str(), single.advertises), ("10.1.2.3", None));
    let loopback = load(&flags(&[("bindAddress", "127.0.0.1")]));
    assert_eq!((loopback.config.network.advertised_address.as_str(), loopback.advertises), ("localhost", None));
}

#[test]
fn what_promises_protection_and_cannot_give_it_stops_the_start() {
    for key in later::REFUSED_WHEN_TRUE {
        let told = refusal(&flags(&[(key, "true")]));
        assert!(told.contains("will not run open instead"), "{told}");
        load(&flags(&[(key, "false")]));
    }
}

#[test]
fn unknown_keys_are_kept_apart_with_what_was_meant() {
    let mut sources = file("numIoThreads=4\nnonsense=1\n");
    sources.variables = vec![("GEMINGA_maxMesageSize".into(), "1".into()), ("PATH".into(), "/bin".into())];
    let loaded = load(&sources);
    let told: Vec<String> = loaded.unknown.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "maxMesageSize (env GEMINGA_maxMesageSize), did you mean maxMessageSize?",
            "nonsense (broker.conf:2)",
            "numIoThreads (broker.conf:1), did you mean numIOThreads?"
        ]
    );
}

#[test]
fn secrets_are_never_printed() {
    let loaded = load(&file("tokenSecretKey=data:;base64,c2VjcmV0\nmanagedLedgerPassword=hush\n"));
    let settings = show::select(&loaded, &[]).expect("all");
    let printed = show::table(&settings) + &show::json(&settings) + &format!("{loaded:?}");
    assert!(printed.contains("tokenSecretKey") && printed.contains(secrets::HIDDEN));
    assert!(!printed.contains("c2VjcmV0") && !printed.contains("hush"), "{printed}");
}

#[test]
fn keys_that_are_asked_for_are_shown_with_value_source_and_state() {
    let loaded = load(&flags(&[("numIOThreads", "5"), ("bookkeeperClientTimeoutInSeconds", "30")]));
    let asked =
        ["numIOThreads", "managedLedgerCacheEvictionWatermark", "metadataStoreUrl", "bookkeeperClientTimeoutInSeconds"].map(str::to_owned);
    let shown: serde_json::Value = serde_json::from_str(&show::json(&show::select(&loaded, &asked).expect("known"))).expect("json");
    let expected = serde_json::json!([
        { "key": "numIOThreads", "value": "5", "source": "--set", "state": "honoured" },
        { "key": "managedLedgerCacheEvictionWatermark", "value": "0.9", "source": "default", "state": "not yet" },
        { "key": "metadataStoreUrl", "value": "", "source": "default", "state": "ignored" },
        { "key": "bookkeeperClientTimeoutInSeconds", "value": "30", "source": "--set", "state": "ignored" },
    ]);
    assert_eq!(shown, expected);
    let error = show::select(&loaded, &["numIoThreads".to_owned()]).expect_err("unknown");
    assert_eq!(error.to_string(), "there is no setting numIoThreads, did you mean numIOThreads?");
}

#[test]
fn a_file_with_every_key_of_pulsars_loads_with_the_planned_verdict_on_each() {
    let text = include_str!("../../vectors/pulsar-broker.conf");
    let loaded = load(&file(text));
    assert_eq!(loaded.unknown, []);
    let mut expected = "";
    let mut seen = BTreeMap::from([("H", 0), ("S", 0), ("I", 0)]);
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            expected = heading;
        } else if let Some((key, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let key = key.trim();
            let verdict = match known::verdict(key) {
                Some(Verdict::Honoured | Verdict::NotYet) => "H",
                Some(Verdict::Kept) => "S",
                Some(Verdict::Ignored) => "I",
                None => "unknown",
            };
            assert_eq!(verdict, expected, "{key}");
            *seen.get_mut(expected).expect("a heading") += 1;
        }
    }
    assert!(seen["H"] >= 180 && seen["S"] >= 20 && seen["I"] >= 45, "{seen:?}");
}

#[test]
fn pulsars_defaults_that_differ_are_taken_when_a_file_says_so() {
    let config = load(&file(include_str!("../../vectors/pulsar-broker.conf"))).config;
    assert!(!config.topics.batch_index_acks);
    assert_eq!(config.dispatch.max_read_entries.get(), 100);
    assert_eq!(config.ledgers.max_acked_ranges.get(), 10_000);
    assert_eq!(config.network.cluster_name, "standalone");
    assert_eq!(config.connections.io_threads, Config::default().connections.io_threads);
}
