//! Geminga itself as the broker under test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Context;
use serde_json::Value;

use super::{
    BrokerChoice, disk,
    started::{Addresses, Recipe, Started},
};
use crate::{
    interrupt::Interrupt,
    result::{BrokerUnderTest, Disk},
};

const PATIENCE: Duration = Duration::from_secs(60);
/// The setting that makes receipts not wait for the disk.
const NO_SYNC: &str = "logUnsafeNoSync";

/// Starts it on free ports and a fresh directory.
pub(super) fn start(choice: &BrokerChoice, interrupt: &Interrupt) -> anyhow::Result<Started> {
    let program = match &choice.executable {
        Some(path) => path.clone(),
        None => std::env::current_exe().context("this program does not know where it is: give its path by --executable")?,
    };
    let home = disk::fresh(choice)?;
    let data = home.path().join("data");
    let file_system = disk::file_system(home.path());
    let tls = choice.tls.then(|| home.path().join("tls"));
    let settings = settings(choice, tls.as_deref());
    let sync_off = settings.iter().any(|(key, value)| key == NO_SYNC && value == "true");
    if let Some(directory) = &tls {
        make_certificates(&program, directory)?;
    }
    let about = BrokerUnderTest {
        product: "Geminga".to_owned(),
        version: version(&program)?,
        command: words(&command(&program, &data, &settings, tls.is_some(), None)),
        chosen: choice.chosen(),
        durability: BrokerChoice::durability(file_system == "tmpfs", sync_off),
        receipts: receipts(sync_off),
        disk: Disk {
            file_system,
            sync_off,
            write_limit: choice.write_limit_mb.map(bytes_per_second),
            added_sync_ms: choice.added_sync_ms.map(f64::from),
        },
        ..BrokerUnderTest::default()
    };
    let (ready, over_tls) = (data.clone(), tls.is_some());
    let recipe = Recipe {
        command: Box::new(move |again| command(&program, &data, &settings, over_tls, again)),
        ready: Box::new(move |pid| endpoints(&ready, pid, over_tls)),
        patience: PATIENCE,
        cpus: choice.cpus.clone(),
        interrupt: interrupt.clone(),
        trust: tls.map(|directory| directory.join("ca.pem")),
    };
    Started::new(recipe, home, about)
}

fn receipts(sync_off: bool) -> String {
    let words = if sync_off {
        "nothing: the log is not synced"
    } else {
        "a sync of the log; one sync serves all that arrived while the one before it ran"
    };
    words.to_owned()
}

/// An authority of the run's own, and a certificate for the broker.
fn make_certificates(program: &Path, directory: &Path) -> anyhow::Result<()> {
    let made = without_settings(Command::new(program).args(["tls", "init"]).arg(directory)).output()?;
    anyhow::ensure!(made.status.success(), "certificates could not be made: {}", String::from_utf8_lossy(&made.stderr).trim());
    Ok(())
}

/// The settings of the command line, those that stand for another disk, and the certificates.
fn settings(choice: &BrokerChoice, tls: Option<&Path>) -> Vec<(String, String)> {
    let mut settings = choice.settings.clone();
    let mut add = |key: &str, value: String| settings.push((key.to_owned(), value));
    if choice.sync_off {
        add(NO_SYNC, "true".to_owned());
    }
    if let Some(mb) = choice.write_limit_mb {
        add("logTestWriteLimitBytesPerSecond", bytes_per_second(mb).to_string());
    }
    if let Some(ms) = choice.added_sync_ms {
        add("logTestSyncDelayMs", ms.to_string());
    }
    if let Some(directory) = tls {
        add("tlsCertificateFilePath", directory.join("server.pem").display().to_string());
        add("tlsKeyFilePath", directory.join("server-key.pem").display().to_string());
    }
    settings
}

fn bytes_per_second(megabytes: u32) -> u64 {
    u64::from(megabytes) * 1_000_000
}

fn command(program: &Path, data: &Path, settings: &[(String, String)], over_tls: bool, again: Option<&Addresses>) -> Command {
    let mut command = Command::new(program);
    command.arg("--data").arg(data);
    let port = |url: Option<&str>| url.and_then(|url| url.rsplit_once(':')).map_or("0", |(_, port)| port).to_owned();
    let ports = [
        (if over_tls { "brokerServicePortTls" } else { "brokerServicePort" }, port(again.map(|addresses| addresses.service_url.as_str()))),
        ("webServicePort", port(again.map(|addresses| addresses.admin_url.as_str()))),
    ];
    for (key, value) in ports {
        command.args(["--set", &format!("{key}={value}")]);
    }
    if over_tls {
        command.args(["--set", "brokerServicePort=0"]);
    }
    for (key, value) in settings {
        command.args(["--set", &format!("{key}={value}")]);
    }
    without_settings(&mut command);
    command
}

/// What steers this program would be settings to the broker.
fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|name| name.starts_with("GEMINGA_"))) {
        command.env_remove(name);
    }
    command
}

fn words(command: &Command) -> Vec<String> {
    let arguments = command.get_args().map(|word| word.to_string_lossy().into_owned());
    std::iter::once(command.get_program().to_string_lossy().into_owned()).chain(arguments).collect()
}

/// What `endpoints.json` says, once the process with this id has written it.
fn endpoints(data: &Path, pid: u32, over_tls: bool) -> Option<Addresses> {
    let json: Value = serde_json::from_slice(&fs::read(data.join("endpoints.json")).ok()?).ok()?;
    // After a kill the file of the dead process is still there.
    if json.get("pid")?.as_u64() != Some(u64::from(pid)) {
        return None;
    }
    let text = |key: &str| json.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Addresses { service_url: text(if over_tls { "pulsarTls" } else { "pulsar" })?, admin_url: text("http")? })
}

/// What the program says of itself.
fn version(program: &PathBuf) -> anyhow::Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("{} cannot be started: give the path of geminga by --executable", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().last().unwrap_or("unknown").to_owned())
}
