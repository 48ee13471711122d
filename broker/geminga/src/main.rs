//! The front door.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use geminga::cli::{Cli, Command, Tls, exit, spelt_out};
use geminga::standalone;
use geminga::start::{self, StartError};
use geminga::terminal::print;
use geminga::{apply, check, completion, consume, doctor, generate, produce, remote, tls_init, token};

fn main() -> ExitCode {
    let began = Instant::now();
    match Cli::parse_from(spelt_out(std::env::args_os())).into_command() {
        Command::Standalone(flags) => match start::prepare(&flags, began) {
            Ok(prepared) => standalone::run(prepared),
            Err(error) => refused(&error),
        },
        Command::Config(args) => match start::show_config(&args) {
            Ok(text) => print(&text),
            Err(error) => refused(&error),
        },
        Command::Tls(Tls::Init(args)) => told(tls_init::init(&args)),
        Command::Token(what) => told(token::run(&what)),
        Command::Produce(args) => produce::run(&args),
        Command::Consume(args) => consume::run(&args),
        Command::Admin(args) => remote::run(&args),
        Command::Apply(args) => told(apply::run(&args)),
        Command::Check(args) => told(check::run(&args)),
        Command::Doctor(args) => told(doctor::run(&args)),
        Command::Generate(what) => print(&generate::run(&what)),
        Command::Completion(args) => print(&completion::run(&args)),
        Command::Perf(args) => perf::cli::main(&args),
    }
}

fn told(outcome: anyhow::Result<String>) -> ExitCode {
    match outcome {
        Ok(text) => print(&text),
        Err(error) => {
            eprintln!("geminga: {error:#}");
            ExitCode::from(exit::FAILED)
        }
    }
}

fn refused(error: &StartError) -> ExitCode {
    eprintln!("geminga: {error}");
    ExitCode::from(error.exit_code())
}
