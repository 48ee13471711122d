//! `geminga admin`: commands for a broker that runs somewhere, each one request.
//!
//! `nouns` is the table of them, `grammar` makes the command line of it, `request` the request, `show` what is printed.

mod contexts;
mod grammar;
mod nouns;
mod request;
mod show;
mod value;
mod verb;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use client::{Answer, Http, Options};
use serde_json::Value;

use crate::cli::exit;
use crate::reach::{TlsFlags, WhoFlags, options};
use contexts::ContextVerb;
use request::Request;
use show::Form;
use verb::Verb;

pub(crate) use contexts::Contexts;
pub(crate) use nouns::policies::{is_put, namespace_policies, topic_policies};
pub(crate) use value::{encoded, namespace_path, topic_path};

/// Which broker, as whom, and how answers are printed.
#[derive(Clone, Debug, Args)]
pub struct Reach {
    /// Where the broker's HTTP side is [default: the context's, or http://localhost:8080]
    #[arg(long, value_name = "URL", env = "GEMINGA_ADMIN_URL")]
    pub admin_url: Option<String>,
    /// A context to use instead of the current one; `geminga admin context --help` tells more
    #[arg(long, value_name = "NAME", env = "GEMINGA_CONTEXT")]
    pub context: Option<String>,
    /// Who asks.
    #[command(flatten)]
    pub who: WhoFlags,
    /// Over TLS.
    #[command(flatten)]
    pub tls: TlsFlags,
}

impl Reach {
    /// The broker that is meant.
    pub(crate) fn http(&self) -> anyhow::Result<Http> {
        let mut reach = self.clone();
        if let Some(context) = Contexts::load()?.chosen(self.context.as_deref())? {
            context.fill(&mut reach);
        }
        let url = reach.admin_url.as_deref().unwrap_or("http://localhost:8080");
        let options: Options = options(&reach.who, &reach.tls).map_err(explained)?;
        Http::new(url, &options).map_err(explained)
    }
}

/// An error with what can be done about it.
pub(crate) fn explained(error: client::Error) -> anyhow::Error {
    match (&error, error.advice()) {
        (client::Error::InvalidUrl { .. }, _) => anyhow!("{error}; give it as http://HOST:PORT"),
        (_, Some(advice)) => anyhow!("{error}\n  {advice}"),
        (_, None) => anyhow!("{error}"),
    }
}

/// `geminga admin …`
#[derive(Debug)]
pub struct Admin {
    reach: Reach,
    form: Option<Form>,
    asked: Asked,
}

#[derive(Debug)]
enum Asked {
    Context(ContextVerb),
    Verb { noun: String, verb: String, matches: Box<ArgMatches> },
}

const AFTER_HELP: &str = "\
Examples:
  geminga admin topics list public/default
  geminga admin topics stats orders               with a table of its subscriptions
  geminga admin topics stats orders --json        as the broker says it
  geminga admin namespaces set-retention public/default --size 10G --time 3h
  geminga admin context set prod --admin-url https://broker:8443 --token-file prod.token
  geminga admin --context prod brokers healthcheck

Nouns and verbs are those of pulsar-admin; `geminga admin NOUN --help` lists the verbs. Where the output is no terminal, objects are JSON.";

impl FromArgMatches for Admin {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::raw(clap::error::ErrorKind::MissingSubcommand, "say what is to be done\n");
        let (noun, below) = matches.subcommand().ok_or_else(missing)?;
        let (verb, deepest) = below.subcommand().ok_or_else(missing)?;
        let asked = match noun {
            "context" => Asked::Context(ContextVerb::from_arg_matches(below)?),
            _ => Asked::Verb { noun: noun.to_owned(), verb: verb.to_owned(), matches: Box::new(deepest.clone()) },
        };
        let form = deepest.get_flag("json").then_some(Form::Json);
        Ok(Self { reach: Reach::from_arg_matches(deepest)?, form, asked })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Admin {
    fn augment_args(command: Command) -> Command {
        let json = clap::Arg::new("json").long("json").action(clap::ArgAction::SetTrue).help("Print JSON");
        let command = Reach::augment_args(command.arg(json)).mut_args(|arg| arg.global(true));
        let command = command.subcommand_required(true).arg_required_else_help(true).after_help(AFTER_HELP);
        grammar::augment(command).subcommand(contexts::command())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The command line with Pulsar's flags of one dash and several letters spelt out, where it is one of ours.
pub(crate) fn spelt_out(args: Vec<OsString>) -> Vec<OsString> {
    match args.get(1).and_then(|arg| arg.to_str()) {
        Some("admin") => grammar::long_flags(args.into_iter()),
        _ => args,
    }
}

/// Runs the command to its end.
pub fn run(admin: &Admin) -> ExitCode {
    let outcome = match &admin.asked {
        Asked::Context(verb) => contexts::run(verb, &admin.reach),
        Asked::Verb { noun, verb, matches } => ask(admin, noun, verb, matches),
    };
    match outcome {
        Ok(text) => crate::terminal::print(&text),
        Err(error) => {
            eprintln!("geminga: {error:#}");
            ExitCode::from(exit::FAILED)
        }
    }
}

fn ask(admin: &Admin, noun: &str, verb: &str, matches: &ArgMatches) -> anyhow::Result<String> {
    let all = nouns::nouns();
    let verbs = all.iter().find(|found| found.name == noun).map(|noun| &noun.verbs);
    let verb = verbs.and_then(|verbs| verbs.iter().find(|found| found.name == verb)).context("no such command")?;
    let request = Request::new(verb, matches).map_err(|reason| anyhow!(reason))?;
    let form = admin.form.unwrap_or(if std::io::stdout().is_terminal() { Form::People } else { Form::Pipe });
    let http = admin.reach.http()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if !request.path.contains("{number}") {
            return Ok(show::answer(&carry_out(&http, &request).await?, verb.show, form));
        }
        let count: u64 = matches.get_one::<String>("count").map_or(Ok(1), |text| text.parse()).context("--count: write a whole number")?;
        several(&http, verb, &request, count, form).await
    })
}

/// The messages at positions 1, 2, 3 and so on, as many as there are.
async fn several(http: &Http, verb: &Verb, request: &Request, count: u64, form: Form) -> anyhow::Result<String> {
    let mut shown = String::new();
    for number in 1..=count {
        match carry_out(http, &request.numbered(number)).await {
            Ok(answer) => shown.push_str(&show::answer(&answer, verb.show, form)),
            Err(_) if number > 1 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(shown)
}

/// Sends a request; what the broker refuses is an error that says why, and what to do.
async fn carry_out(http: &Http, request: &Request) -> anyhow::Result<Answer> {
    let body = request.body.as_ref().map(|body| ("application/json", body.to_string().into()));
    let answer = http.ask(request.method.clone(), &request.path, body).await.map_err(explained)?;
    refuse_failures(http, &request.method, &request.path, &answer)?;
    Ok(answer)
}

/// An error when the broker did not carry out what was asked.
pub(crate) fn refuse_failures(http: &Http, method: &client::Method, path: &str, answer: &Answer) -> anyhow::Result<()> {
    if answer.is_success() {
        return Ok(());
    }
    let reason = serde_json::from_slice::<Value>(&answer.body).ok();
    let reason = reason.as_ref().and_then(|body| body["reason"].as_str()).unwrap_or("it gave no reason");
    let advice = match answer.status {
        401 => "\n  Say who you are: --token, --token-file, --user or --tls-cert; a context can keep them.",
        403 => "\n  Ask for the permission, or use the credentials of an administrator.",
        404 if reason.starts_with("there is no such") => {
            "\n  This broker does not have that part of the interface; `brokers version` tells its level."
        }
        503 | 429 => "\n  Try again in a moment.",
        _ => "",
    };
    bail!("{reason}\n  {method} {}{path} was answered with {}{advice}", http.url(), answer.status)
}
