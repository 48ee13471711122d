//! `endpoints.json` in the data directory: where the broker can be reached, for scripts that started it with port 0.
//! It appears, whole, when the broker is ready, and goes when it stops.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::listeners::AdvertisedListener;

/// Name of the file.
pub const FILE: &str = "endpoints.json";

/// A URL under the name of an advertised listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listener {
    /// The listener's name.
    pub name: String,
    /// Its URL.
    pub url: String,
}

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoints {
    /// The broker's process.
    pub pid: u32,
    /// `pulsar://host:port`
    pub pulsar: Option<String>,
    /// `pulsar+ssl://host:port`
    pub pulsar_tls: Option<String>,
    /// `http://host:port`
    pub http: Option<String>,
    /// `https://host:port`
    pub https: Option<String>,
    /// Every URL of every advertised listener.
    pub listeners: Vec<Listener>,
}

impl Endpoints {
    /// Of this process, from what it advertises; the first listener is the one for clients that name none.
    pub fn of(advertised: &[AdvertisedListener]) -> Self {
        let first = advertised.first().cloned().unwrap_or_default();
        let mut listeners = Vec::new();
        for listener in advertised {
            let urls = [&listener.pulsar, &listener.pulsar_tls, &listener.http, &listener.https];
            listeners.extend(urls.into_iter().flatten().map(|url| Listener { name: listener.name.clone(), url: url.clone() }));
        }
        let AdvertisedListener { pulsar, pulsar_tls, http, https, .. } = first;
        Self { pid: std::process::id(), pulsar, pulsar_tls, http, https, listeners }
    }

    /// Writes the file, all at once; it is removed when the returned value goes.
    pub fn publish(&self, directory: &Path) -> io::Result<Published> {
        let path = directory.join(FILE);
        let draft = directory.join(format!("{FILE}.new"));
        let mut file = fs::File::create(&draft)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        drop(file);
        fs::rename(&draft, &path)?;
        Ok(Published { path })
    }
}

/// Keeps the file while the broker runs.
#[derive(Debug)]
pub struct Published {
    path: PathBuf,
}

impl Drop for Published {
    fn drop(&mut self) {
        // Already gone is what is wanted; anything else leaves a file that the next start removes.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what a broker left that was killed; call it with the data directory's lock held.
pub fn remove_stale(directory: &Path) -> io::Result<()> {
    for name in [FILE.to_owned(), format!("{FILE}.new")] {
        match fs::remove_file(directory.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertised() -> AdvertisedListener {
        let url = |text: &str| Some(text.to_owned());
        AdvertisedListener {
            name: "internal".into(),
            pulsar: url("pulsar://localhost:1"),
            http: url("http://localhost:2"),
            ..AdvertisedListener::default()
        }
    }

    #[test]
    fn the_file_tells_urls_or_null_and_goes_with_its_owner() {
        let directory = tempfile::tempdir().expect("a directory");
        let published = Endpoints::of(&[advertised()]).publish(directory.path()).expect("written");
        let text = fs::read_to_string(directory.path().join(FILE)).expect("there");
        let expected = serde_json::json!({
            "pid": std::process::id(),
            "pulsar": "pulsar://localhost:1",
            "pulsarTls": null,
            "http": "http://localhost:2",
            "https": null,
            "listeners": [
                { "name": "internal", "url": "pulsar://localhost:1" },
                { "name": "internal", "url": "http://localhost:2" },
            ],
        });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("json"), expected);
        drop(published);
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn what_a_killed_broker_left_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        std::mem::forget(Endpoints::of(&[advertised()]).publish(directory.path()).expect("written"));
        remove_stale(directory.path()).expect("removed");
        remove_stale(directory.path()).expect("nothing to remove is fine");
        assert!(!directory.path().join(FILE).exists());
    }
}
