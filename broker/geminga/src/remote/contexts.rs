//! Contexts: brokers by name, so that URLs and credentials need not be typed. One JSON file, which only its owner can read.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Command, Subcommand};
use serde::{Deserialize, Serialize};

use super::{Reach, show};

/// `geminga admin context …`
#[derive(Debug, Subcommand)]
pub(crate) enum ContextVerb {
    /// The contexts there are; a star is at the current one
    List,
    /// Keep the given --admin-url, credentials and TLS files under a name, and make it the current context
    #[command(
        after_help = "Example:\n  geminga admin context set prod --admin-url https://broker:8443 --token-file prod.token --tls-trust ca.pem"
    )]
    Set {
        /// Its name
        name: String,
    },
    /// Make a context the current one
    Use {
        /// Its name
        name: String,
    },
    /// Forget a context
    Delete {
        /// Its name
        name: String,
    },
}

pub(super) fn command() -> Command {
    let command = Command::new("context").about("Brokers by name").aliases(["contexts"]);
    ContextVerb::augment_subcommands(command.subcommand_required(true).arg_required_else_help(true))
}

/// All contexts, and which is the current one.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Contexts {
    current: Option<String>,
    contexts: BTreeMap<String, Kept>,
}

/// One context.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Kept {
    #[serde(skip_serializing_if = "Option::is_none")]
    admin_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_trust: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_cert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_key: Option<PathBuf>,
}

impl Kept {
    fn of(reach: &Reach) -> anyhow::Result<Self> {
        // Relative names would mean other files in another directory.
        let whole = |file: &Option<PathBuf>| file.as_ref().map(|file| std::path::absolute(file).context("a file's name")).transpose();
        Ok(Self {
            admin_url: reach.admin_url.clone(),
            token: reach.who.token.clone(),
            token_file: whole(&reach.who.token_file)?,
            user: reach.who.user.clone(),
            tls_trust: whole(&reach.tls.tls_trust)?,
            tls_cert: whole(&reach.tls.tls_cert)?,
            tls_key: whole(&reach.tls.tls_key)?,
        })
    }

    /// Adds what flags and variables did not say. Credentials go together: those of the context are left out when others were given.
    pub(crate) fn fill(&self, reach: &mut Reach) {
        if reach.admin_url.is_none() {
            reach.admin_url.clone_from(&self.admin_url);
        }
        let who = &mut reach.who;
        if who.token.is_none() && who.token_file.is_none() && who.user.is_none() && who.auth_plugin.is_none() {
            (who.token, who.token_file, who.user) = (self.token.clone(), self.token_file.clone(), self.user.clone());
        }
        if reach.tls.tls_trust.is_none() {
            reach.tls.tls_trust.clone_from(&self.tls_trust);
        }
        if reach.tls.tls_cert.is_none() {
            (reach.tls.tls_cert, reach.tls.tls_key) = (self.tls_cert.clone(), self.tls_key.clone());
        }
    }
}

impl Contexts {
    /// What is in the file; nothing, when there is none.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let file = file()?;
        match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged; mend or delete it", file.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    /// The context of that name, or the current one.
    pub(crate) fn chosen(&self, name: Option<&str>) -> anyhow::Result<Option<&Kept>> {
        let Some(name) = name.or(self.current.as_deref()) else { return Ok(None) };
        match self.contexts.get(name) {
            Some(found) => Ok(Some(found)),
            None => bail!("there is no context `{name}`; there are: {}", self.names()),
        }
    }

    fn names(&self) -> String {
        if self.contexts.is_empty() {
            return "none (geminga admin context set NAME --admin-url URL makes one)".to_owned();
        }
        self.contexts.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    fn save(&self) -> anyhow::Result<()> {
        let file = file()?;
        let fresh = file.with_extension("new");
        let write = || -> io::Result<()> {
            fs::create_dir_all(file.parent().unwrap_or(&file))?;
            let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
            serde_json::to_writer_pretty(&mut out, self)?;
            out.write_all(b"\n")?;
            fs::rename(&fresh, &file)
        };
        write().with_context(|| format!("cannot write {}", file.display()))
    }

    fn list(&self) -> String {
        let row = |(name, kept): (&String, &Kept)| {
            let star = if self.current.as_ref() == Some(name) { "*" } else { "" };
            let who = match kept {
                Kept { token: Some(_), .. } | Kept { token_file: Some(_), .. } => "token",
                Kept { user: Some(_), .. } => "user",
                Kept { tls_cert: Some(_), .. } => "certificate",
                _ => "",
            };
            [star.to_owned(), name.clone(), kept.admin_url.clone().unwrap_or_default(), who.to_owned()]
        };
        let heads = ["", "NAME", "ADMIN URL", "AS"].map(str::to_owned);
        show::table(std::iter::once(heads).chain(self.contexts.iter().map(row)).collect())
    }
}

fn file() -> anyhow::Result<PathBuf> {
    if let Some(file) = std::env::var_os("GEMINGA_CONTEXTS") {
        return Ok(file.into());
    }
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config")));
    Ok(config.context("neither HOME nor XDG_CONFIG_HOME is set; GEMINGA_CONTEXTS may name the file")?.join("geminga/contexts.json"))
}

pub(super) fn run(verb: &ContextVerb, reach: &Reach) -> anyhow::Result<String> {
    let mut all = Contexts::load()?;
    match verb {
        ContextVerb::List => return Ok(all.list()),
        ContextVerb::Set { name } => {
            all.contexts.insert(name.clone(), Kept::of(reach)?);
            all.current = Some(name.clone());
        }
        ContextVerb::Use { name } => {
            all.chosen(Some(name))?;
            all.current = Some(name.clone());
        }
        ContextVerb::Delete { name } => {
            all.chosen(Some(name))?;
            all.contexts.remove(name);
            all.current.take_if(|current| current == name);
        }
    }
    all.save()?;
    Ok(all.list())
}
