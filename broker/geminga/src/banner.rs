//! What a person sees on the terminal when the broker is ready: a few lines that end with the URLs.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use crate::endpoints::Endpoints;

/// What the banner tells.
#[derive(Debug)]
pub struct Banner<'a> {
    /// Where the data is.
    pub data_directory: &'a Path,
    /// Event loops.
    pub io_threads: usize,
    /// How long the start took.
    pub took: Duration,
    /// What is advertised, when nobody said what to advertise.
    pub advertises: Option<&'a str>,
    /// What should not stay as it is: each is told in a line of its own.
    pub warnings: &'a [&'a str],
    /// Where the broker can be reached.
    pub endpoints: &'a Endpoints,
}

const MOST_LINES: usize = 20;

impl Banner<'_> {
    /// At most 20 lines, the URLs last.
    pub fn lines(&self) -> Vec<String> {
        let version = env!("CARGO_PKG_VERSION");
        let ready = self.took.as_millis();
        let mut lines = vec![
            format!(
                "Geminga {version} is ready after {ready} ms, with {} event loops and its data in {}.",
                self.io_threads,
                self.data_directory.display()
            ),
            "Try:  echo hello | geminga produce my-topic    and    geminga consume my-topic".to_owned(),
        ];
        lines.extend(self.advertises.map(str::to_owned));
        lines.extend(self.warnings.iter().map(|warning| format!("WARNING: {warning}")));
        lines.push(String::new());
        let urls = self.urls();
        let room = MOST_LINES - lines.len();
        if urls.len() > room {
            let shown = room - 1;
            lines.push(format!("  … and {} more in {}", urls.len() - shown, crate::endpoints::FILE));
            lines.extend(urls.into_iter().take(shown));
        } else {
            lines.extend(urls);
        }
        lines
    }

    fn urls(&self) -> Vec<String> {
        let endpoints = self.endpoints;
        let own = [&endpoints.pulsar, &endpoints.pulsar_tls, &endpoints.http, &endpoints.https];
        let mut urls: Vec<String> = own.into_iter().flatten().map(|url| format!("  {url}")).collect();
        let others = endpoints.listeners.iter().filter(|listener| !own.into_iter().flatten().any(|url| *url == listener.url));
        urls.extend(others.map(|listener| format!("  {}  (listener {})", listener.url, listener.name)));
        urls
    }

    /// Prints the banner when the standard output is a terminal; otherwise the log tells.
    pub fn show(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if !out.is_terminal() {
            return Ok(());
        }
        for line in self.lines() {
            writeln!(out, "{line}")?;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::Listener;

    fn lines(listeners: usize, note: Option<&str>) -> Vec<String> {
        let endpoints = Endpoints {
            pid: 1,
            pulsar: Some("pulsar://localhost:6650".into()),
            pulsar_tls: None,
            http: Some("http://localhost:8080".into()),
            https: None,
            listeners: (0..listeners).map(|n| Listener { name: format!("l{n}"), url: format!("pulsar://h{n}:6650") }).collect(),
        };
        let took = Duration::from_millis(25);
        Banner {
            data_directory: Path::new("./data"),
            io_threads: 8,
            took,
            advertises: note,
            warnings: note.as_slice(),
            endpoints: &endpoints,
        }
        .lines()
    }

    #[test]
    fn the_last_lines_are_the_urls() {
        let lines = lines(0, None);
        assert_eq!(lines[lines.len() - 2..], ["  pulsar://localhost:6650", "  http://localhost:8080"]);
    }

    #[test]
    fn what_is_advertised_is_told_before_the_urls() {
        let lines = lines(0, Some("Clients are told to connect to box."));
        assert!(lines.contains(&"Clients are told to connect to box.".to_owned()));
        assert_eq!(lines.last().map(String::as_str), Some("  http://localhost:8080"));
    }

    #[test]
    fn however_many_listeners_there_are_it_stays_within_twenty_lines() {
        for listeners in 0..60 {
            assert!(lines(listeners, Some("note")).len() <= 20);
        }
        assert!(lines(60, None).iter().any(|line| line.contains("more in endpoints.json")));
    }
}
