//! A set of processors, and starting a process on it.

use std::{
    os::unix::process::CommandExt,
    process::{Child, Command},
    str::FromStr,
    thread,
};

use anyhow::Context;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Processors by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    text: String,
    numbers: Vec<usize>,
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` names no processors: write numbers and ranges, such as 0-3,6");
        let mut numbers = Vec::new();
        for part in text.split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to): (usize, usize) = (from.trim().parse().map_err(|_| wrong())?, to.trim().parse().map_err(|_| wrong())?);
            if from > to || to >= CpuSet::MAX_CPU {
                return Err(wrong());
            }
            numbers.extend(from..=to);
        }
        Ok(Self { text: text.to_owned(), numbers })
    }
}

impl std::fmt::Display for Cpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Cpus {
    /// Holds the calling thread, and the threads and processes that it starts from now on, to these processors.
    pub fn hold_this_thread(&self) -> anyhow::Result<()> {
        let mut set = CpuSet::new();
        self.numbers.iter().for_each(|number| set.set(*number));
        sched_setaffinity(None, &set).with_context(|| format!("this machine cannot hold a process to processors {self}"))
    }
}

/// Starts a process, held to processors from its first instruction: it sees only these when it counts them.
pub(super) fn spawn(command: &mut Command, cpus: Option<&Cpus>) -> anyhow::Result<Child> {
    // Ctrl-C in a terminal goes to the whole group: this program has to end the broker, so the broker has a group of its own.
    command.process_group(0);
    let what = command.get_program().to_string_lossy().into_owned();
    let child = match cpus {
        None => command.spawn(),
        // A process begins with the processors of the thread that starts it; this thread is for that alone.
        Some(cpus) => thread::scope(|scope| {
            let started = scope.spawn(|| {
                cpus.hold_this_thread()?;
                Ok(command.spawn())
            });
            started.join().unwrap_or_else(|_| anyhow::bail!("the thread that starts {what} failed"))
        })?,
    };
    child.with_context(|| format!("{what} cannot be started"))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn processors_are_numbers_and_ranges() {
        assert_eq!("0-2,5".parse::<Cpus>().unwrap().numbers, [0, 1, 2, 5]);
        for wrong in ["", "a", "3-1", "1-", "99999999"] {
            assert!(wrong.parse::<Cpus>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_process_sees_only_the_processors_it_is_held_to() {
        let allowed = std::fs::read_to_string("/proc/self/status").unwrap();
        let first = crate::machine::field(&allowed, "Cpus_allowed_list").unwrap().split([',', '-']).next().unwrap().to_owned();
        let cpus: Cpus = first.parse().unwrap();
        let mut command = Command::new("cat");
        command.arg("/proc/self/status").stdout(Stdio::piped());
        let output = spawn(&mut command, Some(&cpus)).unwrap().wait_with_output().unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        assert_eq!(crate::machine::field(&status, "Cpus_allowed_list"), Some(first.as_str()));
        let after = std::fs::read_to_string("/proc/self/status").unwrap();
        assert_eq!(crate::machine::field(&after, "Cpus_allowed_list"), crate::machine::field(&allowed, "Cpus_allowed_list"));
    }
}
