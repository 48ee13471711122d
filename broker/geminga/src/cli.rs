//! The command line: what may be asked of `geminga`, and what each command prints when it is misunderstood.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::apply::Apply;
use crate::check::Check;
use crate::completion::Completion;
use crate::doctor::Doctor;
use crate::generate::Generate;
use crate::logging::Format;
use crate::reach::Broker;
use crate::remote;
use crate::tls_init::TlsInit;
use crate::token::Token;

/// Exit codes, told in the help and used by `main`.
pub mod exit {
    /// All went well.
    pub const OK: u8 = 0;
    /// Something failed while running; the last line says what.
    pub const FAILED: u8 = 1;
    /// The command line was not understood.
    pub const USAGE: u8 = 2;
    /// A setting is wrong.
    pub const CONFIG: u8 = 3;
    /// The data directory cannot be used: another broker has it, or its format is not ours.
    pub const DATA: u8 = 4;
}

const AFTER_HELP: &str = "\
Examples:
  geminga                                  a broker on pulsar://localhost:6650, data in ./data
  geminga --data /var/lib/geminga          the same with its data elsewhere
  geminga --config broker.conf             with a file in Pulsar's format
  geminga --set bindAddress=0.0.0.0 --set brokerServicePort=16650
  geminga config numIOThreads              what is in effect, and where it comes from
  echo hello | geminga produce my-topic    and: geminga consume my-topic -n 1
  geminga admin topics stats my-topic      what goes on there; geminga admin --help tells more
  geminga tls init                         certificates for pulsar+ssl:// and https://
  geminga perf run tiny                    what a broker does under load; geminga perf --help tells more

Every setting may also be a variable, GEMINGA_<key>; all keys are in conf/REFERENCE.md.

Exit codes:
  0  all went well
  1  something failed while running; the last line says what
  2  the command line was not understood
  3  a setting is wrong; every wrong one is listed
  4  the data directory cannot be used";

/// A message broker that speaks Apache Pulsar's protocol.
#[derive(Debug, Parser)]
#[command(name = "geminga", version, after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do; a broker is run when nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Flags of the broker.
    #[command(flatten)]
    pub standalone: Standalone,
}

impl Cli {
    /// What was asked for.
    pub fn into_command(self) -> Command {
        self.command.unwrap_or_else(|| Command::Standalone(Box::new(self.standalone)))
    }
}

/// What may be asked for.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a broker (this is what happens without a command)
    Standalone(Box<Standalone>),
    /// Show the settings in effect and where each comes from
    Config(Box<ShowConfig>),
    /// Send messages: lines of the standard input, or files
    Produce(Box<Produce>),
    /// Receive messages: one line each on the standard output, or files
    Consume(Box<Consume>),
    /// Manage a broker that runs somewhere: tenants, namespaces, topics, policies
    Admin(Box<remote::Admin>),
    /// Make tenants, namespaces, topics and policies as a file says
    Apply(Box<Apply>),
    /// Tell by the exit code whether a broker is well
    Check(Box<Check>),
    /// Write one file with all that a bug report needs
    Doctor(Box<Doctor>),
    /// Print a dashboard or a scrape configuration for what `/metrics` tells
    #[command(subcommand)]
    Generate(Generate),
    /// Print a script that lets a shell complete the command line
    Completion(Completion),
    /// Measure a broker of this protocol, and check that it loses and reorders nothing
    Perf(Box<perf::cli::Perf>),
    /// Certificates
    #[command(subcommand)]
    Tls(Tls),
    /// Secrets, keys and tokens
    #[command(subcommand)]
    Token(Token),
}

/// What may be done with certificates.
#[derive(Debug, Subcommand)]
pub enum Tls {
    /// Make a certificate authority of one's own, with certificates for the broker and for clients
    Init(Box<TlsInit>),
}

/// Flags about where settings come from.
#[derive(Clone, Debug, Default, Args)]
pub struct Settings {
    /// Directory for everything that survives a restart [default: ./data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Configuration file in Pulsar's key=value format
    #[arg(long, short = 'c', value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A setting by its key; may be given several times and wins over file and environment
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub set: Vec<(String, String)>,
    /// Host name that clients are told to connect to
    #[arg(long, short = 'a', value_name = "HOST")]
    pub advertised_address: Option<String>,
}

impl Settings {
    /// Key, value and the flag as typed; what `--set` says comes last and wins.
    pub fn flags(&self) -> Vec<(String, String, String)> {
        let data = self.data.as_ref().map(|dir| ("dataDirectory".to_owned(), dir.display().to_string(), "--data".to_owned()));
        let advertised = self.advertised_address.as_ref();
        let advertised = advertised.map(|host| ("advertisedAddress".to_owned(), host.clone(), "--advertised-address".to_owned()));
        let set = self.set.iter().map(|(key, value)| (key.clone(), value.clone(), "--set".to_owned()));
        data.into_iter().chain(advertised).chain(set).collect()
    }
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("write it as KEY=VALUE, for example --set numIOThreads=8".to_owned()),
    }
}

/// Flags of a broker.
#[derive(Clone, Debug, Default, Args)]
pub struct Standalone {
    /// Where settings come from.
    #[command(flatten)]
    pub settings: Settings,
    /// How log lines look: for people, or one JSON object each [default: human, or what PULSAR_LOG_FORMAT says]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<Format>,
    /// How much is logged: error, warn, info, debug or trace, also per part as in info,server=debug [default: info, or what PULSAR_LOG_LEVEL says]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Delete everything in the data directory first; refused unless it holds a broker's data that no broker is using
    #[arg(long)]
    pub wipe_data: bool,
    /// Flags of Pulsar's standalone that have nothing to act on here.
    #[command(flatten)]
    pub pulsar: PulsarFlags,
}

/// Flags of Pulsar's standalone that are accepted and have nothing to act on here.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Accepted for Pulsar's sake, without effect")]
pub struct PulsarFlags {
    /// There is no functions worker
    #[arg(long)]
    pub no_functions_worker: bool,
    /// There is no stream storage
    #[arg(long)]
    pub no_stream_storage: bool,
    /// There are no bookies
    #[arg(long, value_name = "N")]
    pub num_bookies: Option<u32>,
    /// There are no bookies
    #[arg(long, value_name = "PORT")]
    pub bookkeeper_port: Option<u16>,
    /// There are no bookies
    #[arg(long, value_name = "DIR")]
    pub bookkeeper_dir: Option<PathBuf>,
    /// There is no ZooKeeper
    #[arg(long, value_name = "DIR")]
    pub zookeeper_dir: Option<PathBuf>,
    /// There is no ZooKeeper
    #[arg(long, value_name = "PORT")]
    pub zookeeper_port: Option<u16>,
    /// The metadata store is in the data directory
    #[arg(long, value_name = "DIR")]
    pub metadata_dir: Option<PathBuf>,
    /// There is only the broker
    #[arg(long)]
    pub only_broker: bool,
    /// There is no ZooKeeper
    #[arg(long)]
    pub only_bookkeeper: bool,
}

impl PulsarFlags {
    /// Those that were given, for one line of the log.
    pub fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--no-functions-worker", self.no_functions_worker),
            ("--no-stream-storage", self.no_stream_storage),
            ("--num-bookies", self.num_bookies.is_some()),
            ("--bookkeeper-port", self.bookkeeper_port.is_some()),
            ("--bookkeeper-dir", self.bookkeeper_dir.is_some()),
            ("--zookeeper-dir", self.zookeeper_dir.is_some()),
            ("--zookeeper-port", self.zookeeper_port.is_some()),
            ("--metadata-dir", self.metadata_dir.is_some()),
            ("--only-broker", self.only_broker),
            ("--only-bookkeeper", self.only_bookkeeper),
        ];
        all.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
    }
}

/// `geminga config`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga config                                  all settings that matter
  geminga config --config broker.conf             as a file would have them; tells what is wrong with it, without starting anything
  geminga config --json maxMessageSize            for scripts")]
pub struct ShowConfig {
    /// Where settings come from.
    #[command(flatten)]
    pub settings: Settings,
    /// As a JSON array of {key, value, source, state}
    #[arg(long)]
    pub json: bool,
    /// Only these keys
    #[arg(value_name = "KEY")]
    pub keys: Vec<String>,
}

/// `geminga produce`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  echo hello | geminga produce my-topic           one message per line
  geminga produce my-topic a.bin b.bin            one message per file
  geminga produce my-topic -m hello -n 1000       one message a thousand times
  geminga produce persistent://public/default/orders --key eu < orders.txt

A message counts as sent when the broker has it on disk. The exit code is 1 if any was not sent.")]
pub struct Produce {
    /// Topic, in full or short: my-topic is persistent://public/default/my-topic
    #[arg(value_name = "TOPIC")]
    pub topic: String,
    /// Files to send, one message each; without any, each line of the standard input is a message
    #[arg(value_name = "FILE", conflicts_with = "message")]
    pub files: Vec<PathBuf>,
    /// A message to send instead of the standard input; may be given several times
    #[arg(long, short = 'm', value_name = "TEXT")]
    pub message: Vec<String>,
    /// Stop after this many messages; with -m or files, go round until this many are sent
    #[arg(long, short = 'n', value_name = "N")]
    pub num: Option<NonZeroU64>,
    /// Key of every message; the same key always goes to the same consumer and partition
    #[arg(long, short = 'k', value_name = "KEY")]
    pub key: Option<String>,
    /// Property of every message; may be given several times
    #[arg(long, short = 'p', value_name = "NAME=VALUE", value_parser = key_and_value)]
    pub property: Vec<(String, String)>,
    /// Print one JSON object per message sent: {"messageId", "size"}
    #[arg(long)]
    pub json: bool,
    /// Where the broker is.
    #[command(flatten)]
    pub broker: Broker,
}

/// `geminga consume`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga consume my-topic                        from the first message there is, until Ctrl-C
  geminga consume my-topic -n 10                  ten messages, then exit
  geminga consume my-topic --from latest          only what is sent from now on
  geminga consume my-topic -s workers --type shared      share the work with others of that name
  geminga consume my-topic --json | jq .key       with keys, properties and ids
  geminga consume my-topic --out received/        one file per message

A message is acknowledged once it is written. What another run with the same subscription did not acknowledge comes again.")]
pub struct Consume {
    /// Topic, in full or short: my-topic is persistent://public/default/my-topic
    #[arg(value_name = "TOPIC")]
    pub topic: String,
    /// Stop after this many messages
    #[arg(long, short = 'n', value_name = "N")]
    pub num: Option<NonZeroU64>,
    /// Name of the subscription, which remembers its place; without one, a reader that leaves nothing behind
    #[arg(long, short = 's', value_name = "NAME")]
    pub subscription: Option<String>,
    /// Whether others may consume from the same subscription
    #[arg(long = "type", short = 't', value_name = "TYPE", default_value = "exclusive")]
    pub kind: SubscriptionKind,
    /// Where a new subscription begins; one that exists goes on from its place
    #[arg(long, value_name = "PLACE", default_value = "earliest")]
    pub from: From,
    /// Print one JSON object per message: {"messageId", "key", "properties", "publishTime", "payload"}
    #[arg(long)]
    pub json: bool,
    /// Write each message to a file of its own in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    pub out: Option<PathBuf>,
    /// Where the broker is.
    #[command(flatten)]
    pub broker: Broker,
}

/// Types of subscription that can be consumed from the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SubscriptionKind {
    /// One consumer
    Exclusive,
    /// Many consumers, each message to one of them
    Shared,
}

/// Where a new subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// At the first message there is
    Earliest,
    /// After the last one there is
    Latest,
}

/// The command line with Pulsar's two short flags of several letters spelt out, which clap has no notion of.
pub fn spelt_out(args: impl IntoIterator<Item = std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    let long = |arg: std::ffi::OsString| match arg.to_str() {
        Some("-nfw") => "--no-functions-worker".into(),
        Some("-nss") => "--no-stream-storage".into(),
        _ => arg,
    };
    remote::spelt_out(args.into_iter().map(long).collect())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(args: &[&str]) -> Result<Command, clap::Error> {
        let args = std::iter::once("geminga").chain(args.iter().copied()).map(std::ffi::OsString::from);
        Cli::try_parse_from(spelt_out(args)).map(Cli::into_command)
    }

    fn standalone(args: &[&str]) -> Standalone {
        match parse(args) {
            Ok(Command::Standalone(flags)) => *flags,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn nothing_said_is_a_broker_with_defaults() {
        let flags = standalone(&[]);
        assert_eq!(flags.settings.flags(), []);
        assert!(!flags.wipe_data);
    }

    #[test]
    fn flags_are_the_same_with_and_without_the_command() {
        for args in [&["--data", "d", "--set", "numIOThreads=2"][..], &["standalone", "--data", "d", "--set", "numIOThreads=2"]] {
            let flags = standalone(args).settings.flags();
            let expected = [("dataDirectory", "d", "--data"), ("numIOThreads", "2", "--set")];
            assert_eq!(flags, expected.map(|(k, v, f)| (k.to_owned(), v.to_owned(), f.to_owned())), "{args:?}");
        }
    }

    #[test]
    fn flags_of_pulsars_standalone_are_accepted() {
        let line = "standalone -nfw -nss --advertised-address h --num-bookies 1 --bookkeeper-dir b --zookeeper-dir z --metadata-dir m";
        let flags = standalone(&line.split(' ').collect::<Vec<_>>());
        let expected =
            ["--no-functions-worker", "--no-stream-storage", "--num-bookies", "--bookkeeper-dir", "--zookeeper-dir", "--metadata-dir"];
        assert_eq!(flags.pulsar.given(), expected);
        assert_eq!(flags.settings.flags()[0].1, "h");
    }

    #[test]
    fn a_setting_without_an_equals_sign_says_how_to_write_it() {
        let error = parse(&["--set", "numIOThreads"]).expect_err("refused");
        assert!(error.to_string().contains("--set numIOThreads=8"), "{error}");
        assert_eq!(error.exit_code(), i32::from(exit::USAGE));
    }

    #[test]
    fn consuming_begins_at_the_earliest_message_unless_told_otherwise() {
        let Ok(Command::Consume(consume)) = parse(&["consume", "t"]) else { panic!() };
        assert_eq!((consume.from, consume.kind, consume.num), (From::Earliest, SubscriptionKind::Exclusive, None));
        assert_eq!(consume.broker.url, "pulsar://localhost:6650");
        let Ok(Command::Consume(consume)) = parse(&["consume", "t", "-n", "3", "--type", "shared", "--from", "latest"]) else { panic!() };
        assert_eq!((consume.from, consume.kind, consume.num), (From::Latest, SubscriptionKind::Shared, NonZeroU64::new(3)));
        assert!(parse(&["consume", "t", "-n", "0"]).is_err());
    }

    #[test]
    fn every_command_has_examples_in_its_help() {
        let mut command = Cli::command();
        assert!(command.render_long_help().to_string().contains("Exit codes"));
        for name in ["config", "produce", "consume", "admin", "apply", "check", "doctor", "completion"] {
            let help = command.find_subcommand_mut(name).expect("a command").render_help().to_string();
            assert!(help.contains("Examples:"), "{help}");
        }
    }
}
