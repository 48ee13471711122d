//! What `produce` and `consume` tell the person who runs them: on the standard error, so that the standard output is for messages alone.

use std::{
    io::{self, IsTerminal, Write, stderr, stdout},
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::cli::exit;

/// A line of progress that is rewritten while it changes. Silent where nobody looks.
#[derive(Debug)]
pub(crate) struct Progress {
    verb: &'static str,
    started: Instant,
    shown: Option<(Instant, u64)>,
    messages: u64,
    bytes: u64,
    is_watched: bool,
}

const EVERY: Duration = Duration::from_millis(500);

impl Progress {
    /// Of messages that are `verb`: sent, received. The line is shown only on a terminal, and only if `beside_output` says that
    /// it does not run into what is printed there.
    pub(crate) fn new(verb: &'static str, beside_output: bool) -> Self {
        let is_watched = beside_output && stderr().is_terminal();
        Self { verb, started: Instant::now(), shown: None, messages: 0, bytes: 0, is_watched }
    }

    /// One more message of so many bytes.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
        if !self.is_watched || self.messages % 64 != 1 {
            return;
        }
        let (since, before) = self.shown.unwrap_or((self.started, 0));
        let passed = since.elapsed();
        if passed >= EVERY {
            let rate = (self.messages - before) as f64 / passed.as_secs_f64();
            let _ = write!(stderr(), "\r{} messages {}, {rate:.0}/s \x1b[K", self.messages, self.verb);
            self.shown = Some((Instant::now(), self.messages));
        }
    }

    /// Messages so far.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// The last word, if somebody looks.
    pub(crate) fn finish(&self, whither: &str) {
        if !self.is_watched {
            return;
        }
        let clear = if self.shown.is_some() { "\r\x1b[K" } else { "" };
        let plural = if self.messages == 1 { "" } else { "s" };
        let seconds = self.started.elapsed().as_secs_f64();
        note(&format!("{clear}{} message{plural} {} {whither} ({}, {seconds:.1} s)", self.messages, self.verb, size(self.bytes)));
    }
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Prints what was asked for.
pub fn print(text: &str) -> ExitCode {
    match stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::from(exit::OK),
        // `geminga config | head` is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(exit::OK),
        Err(error) => {
            note(&format!("geminga: cannot print: {error}"));
            ExitCode::from(exit::FAILED)
        }
    }
}

/// Says something on the standard error.
pub(crate) fn note(text: &str) {
    // Where nobody can be told, nobody is.
    let _ = writeln!(stderr(), "{text}");
}

/// Says what failed and what can be done about it.
pub(crate) fn fail(what: &str, error: &client::Error) {
    note(&format!("geminga: {what}: {error}"));
    if let Some(advice) = error.advice() {
        note(&format!("  {advice}"));
    }
}

/// Resolves when the person or the system asks this process to end.
pub(crate) async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!([999, 20_000, 12_345_678].map(size), ["999 bytes", "20 kB", "12.3 MB"]);
    }
}
