//! `geminga produce`: lines, texts or files become messages.

use std::{
    fs,
    io::{BufRead, IsTerminal, Write, stdin, stdout},
    path::PathBuf,
    process::ExitCode,
    thread,
    time::Duration,
};

use client::{Client, Error, Message, MessageId, Producer, ProducerOptions, Receipt, Receipts, TrySendError};
use tokio::sync::mpsc;

use crate::{
    cli::{self, exit},
    terminal::{Progress, asked_to_end, fail, note},
};

/// Messages on their way per partition, and lines read ahead.
const WINDOW: usize = 1000;

/// How long the broker may say nothing to messages under way before the person is told.
const SILENCE: Duration = Duration::from_secs(3);

/// Runs the subcommand to its end.
pub fn run(args: &cli::Produce) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let is_done = match runtime {
        Ok(runtime) => runtime.block_on(produce(args)),
        Err(error) => {
            note(&format!("geminga: cannot start: {error}"));
            false
        }
    };
    ExitCode::from(if is_done { exit::OK } else { exit::FAILED })
}

async fn produce(args: &cli::Produce) -> bool {
    let receipts = Receipts::new();
    let producers = match attach(args, &receipts).await {
        Ok(producers) => producers,
        Err(error) => {
            fail(&format!("cannot produce to {} at {}", args.topic, args.broker.url), &error);
            return false;
        }
    };
    let source = Source::new(args);
    let mut sender = Sender { args, producers, receipts, next: 0, failed: false, progress: Progress::new("sent", !args.json) };
    let is_complete = sender.pump(source).await;
    let Sender { producers, failed, progress, .. } = sender;
    progress.finish(&format!("to {}", args.topic));
    for producer in producers {
        // Every receipt is there; what the broker says to the leaving changes nothing.
        let _ = producer.close().await;
    }
    is_complete && !failed
}

async fn attach(args: &cli::Produce, receipts: &Receipts) -> Result<Vec<Producer>, Error> {
    let client = Client::connect(&args.broker.url, args.broker.options()?).await?;
    let mut producers = Vec::new();
    for topic in client.partitions(&args.topic).await? {
        let options = ProducerOptions { receipts: receipts.clone(), max_pending: WINDOW, ..ProducerOptions::default() };
        producers.push(client.producer(&topic, options).await?);
    }
    Ok(producers)
}

struct Sender<'a> {
    args: &'a cli::Produce,
    producers: Vec<Producer>,
    receipts: Receipts,
    /// The partition whose turn it is, for messages without a key.
    next: usize,
    failed: bool,
    progress: Progress,
}

impl Sender<'_> {
    /// Sends until the source is dry, the count is full or somebody says stop; then waits for the receipts. False if something was left out.
    async fn pump(&mut self, mut source: Source) -> bool {
        let mut left = self.args.num.map_or(u64::MAX, std::num::NonZeroU64::get);
        let (mut under_way, mut held, mut is_open) = (0u64, None, true);
        let (mut got, mut is_complete, mut is_told) = (Vec::new(), true, false);
        let end = asked_to_end();
        tokio::pin!(end);
        while under_way > 0 || (is_open && !self.failed) {
            let may_read = is_open && !self.failed && held.is_none() && left > 0;
            if !may_read && held.is_none() && under_way == 0 {
                break;
            }
            tokio::select! {
                biased;
                () = &mut end, if is_open => {
                    note(&format!("stopped after {} messages", self.progress.messages() + under_way));
                    (is_open, is_complete) = (false, false);
                    held = None;
                }
                () = self.receipts.next(&mut got) => {
                    under_way -= got.len() as u64;
                    got.drain(..).for_each(|receipt| self.receipt(receipt));
                    if let Some(message) = held.take() && !self.failed {
                        held = self.send(message, &mut under_way);
                    }
                }
                next = source.next(), if may_read => match next {
                    Some(Ok(payload)) => {
                        left -= 1;
                        held = self.send(self.message(payload), &mut under_way);
                    }
                    Some(Err(problem)) => {
                        note(&format!("geminga: {problem}"));
                        self.failed = true;
                    }
                    None => is_open = false,
                },
                () = tokio::time::sleep(SILENCE), if under_way > 0 && !is_told => {
                    note(&format!("no answer for {SILENCE:?}; going on trying to get {under_way} messages stored"));
                    is_told = true;
                }
            }
        }
        is_complete
    }

    fn message(&self, payload: Vec<u8>) -> Message {
        let mut message = Message::new(payload);
        if let Some(key) = &self.args.key {
            message = message.key(key.as_str());
        }
        message.properties = self.args.property.clone();
        message
    }

    /// Gives the message back if its producer has no room.
    fn send(&mut self, message: Message, under_way: &mut u64) -> Option<Message> {
        let at = match &self.args.key {
            Some(key) => (wire::hash::murmur3(key.as_bytes()) & 0x7fff_ffff) as usize % self.producers.len(),
            None => self.next % self.producers.len(),
        };
        let size = message.payload.len() as u64;
        match self.producers[at].try_send(message, size) {
            Ok(_) => {
                *under_way += 1;
                self.next += 1;
                None
            }
            Err(TrySendError::Full(message)) => Some(message),
            Err(TrySendError::Failed(error)) => {
                self.not_sent(&error);
                None
            }
        }
    }

    fn receipt(&mut self, receipt: Receipt) {
        let size = usize::try_from(receipt.token).unwrap_or(usize::MAX);
        match receipt.outcome {
            Ok(id) => {
                self.progress.count(size);
                if self.args.json {
                    // A reader that went away does not stop the sending.
                    let _ = writeln!(stdout(), "{}", as_json(id, size));
                }
            }
            Err(error) => self.not_sent(&error),
        }
    }

    /// Told once: what follows fails for the same reason.
    fn not_sent(&mut self, error: &Error) {
        if !std::mem::replace(&mut self.failed, true) {
            fail(&format!("message {} was not sent", self.progress.messages() + 1), error);
        }
    }
}

fn as_json(id: MessageId, size: usize) -> serde_json::Value {
    serde_json::json!({ "messageId": id.to_string(), "size": size })
}

/// Where payloads come from.
enum Source {
    /// Lines, read by a thread of their own, since a terminal cannot be waited for otherwise.
    Lines(mpsc::Receiver<Result<Vec<u8>, String>>),
    Texts {
        texts: Vec<String>,
        at: usize,
        repeats: bool,
    },
    Files {
        files: Vec<PathBuf>,
        at: usize,
        repeats: bool,
    },
}

impl Source {
    fn new(args: &cli::Produce) -> Self {
        let repeats = args.num.is_some();
        if !args.message.is_empty() {
            return Self::Texts { texts: args.message.clone(), at: 0, repeats };
        }
        if !args.files.is_empty() {
            return Self::Files { files: args.files.clone(), at: 0, repeats };
        }
        if stdin().is_terminal() {
            note("one message per line; Ctrl-D ends");
        }
        let (lines, received) = mpsc::channel(WINDOW);
        thread::spawn(move || read_lines(&lines));
        Self::Lines(received)
    }

    async fn next(&mut self) -> Option<Result<Vec<u8>, String>> {
        match self {
            Self::Lines(lines) => lines.recv().await,
            Self::Texts { texts, at, repeats } => Some(Ok(turn(texts, at, *repeats)?.clone().into_bytes())),
            Self::Files { files, at, repeats } => {
                let path = turn(files, at, *repeats)?;
                Some(fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display())))
            }
        }
    }
}

/// The next of the items; after the last one the first again, if they repeat.
fn turn<'a, T>(items: &'a [T], at: &mut usize, repeats: bool) -> Option<&'a T> {
    let index = if repeats { *at % items.len() } else { *at };
    *at += 1;
    items.get(index)
}

fn read_lines(to: &mpsc::Sender<Result<Vec<u8>, String>>) {
    let mut input = stdin().lock();
    loop {
        let mut line = Vec::new();
        let line = match input.read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => Ok(without_line_end(line)),
            Err(error) => Err(format!("cannot read the standard input: {error}")),
        };
        let is_last = line.is_err();
        if to.blocking_send(line).is_err() || is_last {
            return;
        }
    }
}

fn without_line_end(mut line: Vec<u8>) -> Vec<u8> {
    if line.ends_with(b"\n") {
        line.pop();
        if line.ends_with(b"\r") {
            line.pop();
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_loses_its_end_and_nothing_else() {
        for (line, payload) in [("a\n", "a"), ("a\r\n", "a"), ("a", "a"), ("\n", ""), (" a \r", " a \r")] {
            assert_eq!(without_line_end(line.into()), payload.as_bytes());
        }
    }

    #[test]
    fn items_go_round_only_when_they_repeat() {
        let take = |repeats| {
            let mut at = 0;
            std::iter::from_fn(move || turn(&[1, 2], &mut at, repeats).copied()).take(5).collect::<Vec<_>>()
        };
        assert_eq!(take(false), [1, 2]);
        assert_eq!(take(true), [1, 2, 1, 2, 1]);
    }
}
