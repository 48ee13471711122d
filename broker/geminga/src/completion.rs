//! `geminga completion`: a script that lets a shell complete the command line.

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::cli::Cli;

/// `geminga completion`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(geminga completion bash)
  geminga completion zsh > ~/.zfunc/_geminga
  geminga completion fish > ~/.config/fish/completions/geminga.fish")]
pub struct Completion {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The script.
pub fn run(completion: &Completion) -> String {
    let mut script = Vec::new();
    generate(completion.shell, &mut Cli::command(), "geminga", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
