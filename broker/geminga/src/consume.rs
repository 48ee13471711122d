//! `geminga consume`: messages become lines, JSON or files.

use std::{
    collections::HashMap,
    fs,
    io::{self, BufWriter, IsTerminal, Stdout, Write, stdout},
    path::PathBuf,
    process::ExitCode,
};

use client::{Client, Consumer, ConsumerOptions, Error, Inbox, Item, MessageId, Metadata, Received, Start, SubscriptionType};
use serde_json::{Map, Value, json};

use crate::{
    cli::{self, exit},
    terminal::{Progress, asked_to_end, fail, note},
};

/// Messages taken from the inbox at once.
const AT_ONCE: usize = 100;

/// Runs the subcommand to its end.
pub fn run(args: &cli::Consume) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let is_done = match runtime {
        Ok(runtime) => runtime.block_on(consume(args)),
        Err(error) => {
            note(&format!("geminga: cannot start: {error}"));
            false
        }
    };
    ExitCode::from(if is_done { exit::OK } else { exit::FAILED })
}

async fn consume(args: &cli::Consume) -> bool {
    let inbox = Inbox::new();
    let mut output = match Output::new(args) {
        Ok(output) => output,
        Err(problem) => {
            note(&format!("geminga: {problem}"));
            return false;
        }
    };
    let consumers = match attach(args, &inbox).await {
        Ok(consumers) => consumers,
        Err(error) => {
            fail(&format!("cannot consume from {} at {}", args.topic, args.broker.url), &error);
            return false;
        }
    };
    note(&expectation(args, consumers[0].topic(), consumers.len()));
    let shows_messages = args.out.is_none() && stdout().is_terminal();
    let mut progress = Progress::new("received", !shows_messages);
    let is_complete = receive(args, &inbox, &mut output, &mut progress).await;
    progress.finish(&format!("from {}", args.topic));
    for consumer in consumers {
        // The broker's answer means that it has read the acknowledgements before it.
        let _ = consumer.close().await;
    }
    is_complete
}

async fn attach(args: &cli::Consume, inbox: &Inbox) -> Result<Vec<Consumer>, Error> {
    let client = Client::connect(&args.broker.url, args.broker.options()?).await?;
    let mut consumers = Vec::new();
    for topic in client.partitions(&args.topic).await? {
        consumers.push(client.consumer(&topic, options(args, inbox)).await?);
    }
    Ok(consumers)
}

fn options(args: &cli::Consume, inbox: &Inbox) -> ConsumerOptions {
    let start = match args.from {
        cli::From::Earliest => Start::Earliest,
        cli::From::Latest => Start::Latest,
    };
    let options = match &args.subscription {
        Some(name) => ConsumerOptions { start, ..ConsumerOptions::new(name) },
        None => ConsumerOptions::reader(start),
    };
    let kind = match args.kind {
        cli::SubscriptionKind::Exclusive => SubscriptionType::Exclusive,
        cli::SubscriptionKind::Shared => SubscriptionType::Shared,
    };
    // What is sent ahead to a consumer that wants only a few would be withheld from the others of its subscription.
    let receiver_queue = args.num.map_or(1000, |num| u32::try_from(num.get()).unwrap_or(1000).min(1000));
    ConsumerOptions { kind, inbox: inbox.clone(), receiver_queue, ..options }
}

/// What the command waits for, in a sentence.
fn expectation(args: &cli::Consume, topic: &str, partitions: usize) -> String {
    let topic = if partitions == 1 { topic.to_owned() } else { format!("the {partitions} partitions of {}", args.topic) };
    let what =
        args.num.map_or_else(|| "messages".to_owned(), |num| if num.get() == 1 { "1 message".into() } else { format!("{num} messages") });
    let place = match (args.from, &args.subscription) {
        (cli::From::Earliest, None) => "from the earliest on".to_owned(),
        (cli::From::Latest, None) => "sent from now on".to_owned(),
        (cli::From::Earliest, Some(name)) => format!("that subscription `{name}` has not seen; if it is new, from the earliest on"),
        (cli::From::Latest, Some(name)) => format!("that subscription `{name}` has not seen; if it is new, those sent from now on"),
    };
    format!("waiting for {what} on {topic} {place}; Ctrl-C ends")
}

/// Until there are enough, nobody reads any more, or somebody says stop. False if the messages asked for did not all come.
async fn receive(args: &cli::Consume, inbox: &Inbox, output: &mut Output, progress: &mut Progress) -> bool {
    let mut left = args.num.map_or(u64::MAX, std::num::NonZeroU64::get);
    let mut items = Vec::new();
    let end = asked_to_end();
    tokio::pin!(end);
    while left > 0 {
        tokio::select! {
            biased;
            () = &mut end => {
                if let Some(num) = args.num {
                    note(&format!("stopped after {} of {num} messages", progress.messages()));
                }
                return args.num.is_none();
            }
            () = inbox.next_many(&mut items, AT_ONCE.min(usize::try_from(left).unwrap_or(AT_ONCE))) => {}
        }
        let mut written = Vec::new();
        for item in items.drain(..) {
            let message = match item {
                Item::Message(message) => message,
                Item::Ended { error, .. } => {
                    fail("the broker took the topic away", &error);
                    return false;
                }
            };
            match output.write(&message) {
                Ok(()) => written.push(message),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return true,
                Err(error) => {
                    note(&format!("geminga: cannot write message {}: {error}", message.id));
                    return false;
                }
            }
        }
        match output.flush() {
            Ok(()) => {}
            // Whoever read has enough; what was not written stays unacknowledged.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return true,
            Err(error) => {
                note(&format!("geminga: cannot write: {error}"));
                return false;
            }
        }
        left -= written.len() as u64;
        for message in written {
            message.ack();
            progress.count(message.payload.len());
        }
    }
    true
}

/// Where messages go.
enum Output {
    Lines(BufWriter<Stdout>),
    Json(BufWriter<Stdout>),
    Files { directory: PathBuf, per_topic: HashMap<String, String> },
}

impl Output {
    fn new(args: &cli::Consume) -> Result<Self, String> {
        let out = || BufWriter::new(stdout());
        match &args.out {
            Some(directory) => {
                fs::create_dir_all(directory).map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
                Ok(Self::Files { directory: directory.clone(), per_topic: HashMap::new() })
            }
            None if args.json => Ok(Self::Json(out())),
            None => Ok(Self::Lines(out())),
        }
    }

    fn write(&mut self, message: &Received) -> io::Result<()> {
        match self {
            Self::Lines(out) => {
                out.write_all(&message.payload)?;
                out.write_all(b"\n")
            }
            Self::Json(out) => {
                serde_json::to_writer(&mut *out, &as_json(message.id, &message.metadata(), &message.payload))?;
                out.write_all(b"\n")
            }
            Self::Files { directory, per_topic } => {
                let partition = per_topic.entry(message.topic().to_owned()).or_insert_with(|| partition_of(message.topic()));
                fs::write(directory.join(format!("{partition}{}", file_name(message.id))), &message.payload)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Lines(out) | Self::Json(out) => out.flush(),
            Self::Files { .. } => Ok(()),
        }
    }
}

/// `p3-` for the third partition, nothing for a topic that is none.
fn partition_of(topic: &str) -> String {
    topic
        .rsplit_once("-partition-")
        .filter(|(_, index)| index.parse::<u32>().is_ok())
        .map_or_else(String::new, |(_, index)| format!("p{index}-"))
}

/// Names sort as the messages came, and a message that comes again is the same file.
fn file_name(id: MessageId) -> String {
    let MessageId { ledger, entry, batch_index, .. } = id;
    if batch_index >= 0 { format!("{ledger:010}-{entry:010}-{batch_index:06}") } else { format!("{ledger:010}-{entry:010}") }
}

fn as_json(id: MessageId, metadata: &Metadata, payload: &[u8]) -> Value {
    let mut object = Map::new();
    object.insert("messageId".into(), json!(id.to_string()));
    object.insert(if metadata.key_is_base64 { "keyBase64" } else { "key" }.into(), json!(metadata.key));
    let properties: Map<String, Value> = metadata.properties.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    object.insert("properties".into(), properties.into());
    object.insert("publishTime".into(), json!(metadata.publish_time));
    if let Some(time) = metadata.event_time {
        object.insert("eventTime".into(), json!(time));
    }
    match str::from_utf8(payload) {
        Ok(text) => object.insert("payload".into(), json!(text)),
        Err(_) => object.insert("payloadBase64".into(), json!(base64(payload))),
    };
    object.into()
}

fn base64(bytes: &[u8]) -> String {
    use base64::prelude::*;
    BASE64_STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn args(line: &str) -> cli::Consume {
        match cli::Cli::try_parse_from(["geminga", "consume"].into_iter().chain(line.split(' '))).map(cli::Cli::into_command) {
            Ok(cli::Command::Consume(args)) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_waited_for_is_said_in_a_sentence() {
        let said = |line| expectation(&args(line), "persistent://public/default/t", 1);
        assert_eq!(said("t"), "waiting for messages on persistent://public/default/t from the earliest on; Ctrl-C ends");
        assert!(said("t -n 1 --from latest").starts_with("waiting for 1 message on persistent://public/default/t sent from now on"));
        assert!(said("t -s mine -n 2").contains("2 messages on persistent://public/default/t that subscription `mine` has not seen"));
        assert!(expectation(&args("t"), "", 3).contains("the 3 partitions of t"));
    }

    #[test]
    fn a_consumer_of_few_does_not_hoard() {
        assert_eq!(options(&args("t -n 3 -s s -t shared"), &Inbox::new()).receiver_queue, 3);
        assert_eq!(options(&args("t"), &Inbox::new()).receiver_queue, 1000);
        assert!(!options(&args("t"), &Inbox::new()).durable);
    }

    #[test]
    fn json_tells_text_from_bytes() {
        let metadata =
            Metadata { key: Some("k".into()), properties: vec![("a".into(), "b".into())], publish_time: 5, ..Metadata::default() };
        let text = as_json(MessageId::new(1, 2), &metadata, b"hi").to_string();
        assert_eq!(text, r#"{"messageId":"1:2","key":"k","properties":{"a":"b"},"publishTime":5,"payload":"hi"}"#);
        let bytes = as_json(MessageId::new(1, 2), &Metadata { key_is_base64: true, ..metadata }, &[255]);
        assert_eq!((&bytes["keyBase64"], &bytes["payloadBase64"], bytes.get("payload")), (&json!("k"), &json!("/w=="), None));
    }

    #[test]
    fn file_names_sort_as_messages_do() {
        let batch = MessageId { batch_index: 10, batch_size: 11, ..MessageId::new(2, 9) };
        assert!(file_name(MessageId::new(2, 9)) < file_name(MessageId::new(2, 10)));
        assert!(file_name(batch) < file_name(MessageId::new(2, 10)));
        assert_eq!(
            (partition_of("persistent://a/b/c-partition-3"), partition_of("persistent://a/b/c-partition-x")),
            ("p3-".into(), String::new())
        );
    }
}
