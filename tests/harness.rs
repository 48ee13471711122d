//! A real broker in a process of its own: started on free ports and a fresh directory, killed, stopped, started again.

use std::{
    fs::{self, File},
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take that must happen. Generous, since it costs time only when a test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How a broker is started.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    settings: Vec<(String, String)>,
}

impl Setup {
    /// One more setting, as `--set key=value`.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl ToString) -> Self {
        self.settings.push((key.to_owned(), value.to_string()));
        self
    }

    /// Starts a broker on a fresh directory, which goes away with it.
    #[must_use]
    pub fn start(self) -> Broker {
        Broker::start_in(tempfile::tempdir().expect("a temporary directory"), self)
    }
}

/// What `endpoints.json` says.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The whole file.
    pub json: Value,
    /// The process that wrote it.
    pub pid: u32,
    /// Service URL of the binary protocol.
    pub pulsar: String,
    /// Service URL of the HTTP interface.
    pub http: String,
}

impl Endpoints {
    fn read(data: &Path) -> Option<Self> {
        let json: Value = serde_json::from_slice(&fs::read(data.join("endpoints.json")).ok()?).ok()?;
        let text = |key: &str| json.get(key).and_then(Value::as_str).map(str::to_owned);
        let pid = u32::try_from(json.get("pid")?.as_u64()?).ok()?;
        Some(Self { pid, pulsar: text("pulsar")?, http: text("http")?, json })
    }
}

/// A running (or killed) broker and its data directory. It is killed when dropped.
#[derive(Debug)]
pub struct Broker {
    child: Child,
    // Holds the data directory and, beside it, what the broker prints.
    home: TempDir,
    data: PathBuf,
    setup: Setup,
    endpoints: Endpoints,
    starts: u32,
}

impl Broker {
    /// Starts a broker with all defaults on free ports.
    #[must_use]
    pub fn start() -> Self {
        Setup::default().start()
    }

    fn start_in(home: TempDir, setup: Setup) -> Self {
        let data = home.path().join("data");
        let mut child = spawn(&data, &setup, ("0", "0"), &log_file(home.path(), 1));
        let endpoints = wait_until_ready(&mut child, &data, &log_file(home.path(), 1));
        Self { child, home, data, setup, endpoints, starts: 1 }
    }

    /// Starts it again on the same directory and the same ports, after a kill or a stop.
    pub fn restart(&mut self) {
        self.kill();
        self.starts += 1;
        let ports = (port_of(&self.endpoints.pulsar), port_of(&self.endpoints.http));
        let log = log_file(self.home.path(), self.starts);
        self.child = spawn(&self.data, &self.setup, (&ports.0, &ports.1), &log);
        self.endpoints = wait_until_ready(&mut self.child, &self.data, &log);
    }

    /// `kill -9`, and waits until the process is gone. Does nothing to a process that has ended.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends SIGTERM and waits for the process to end by itself.
    pub fn stop(&mut self) -> ExitStatus {
        kill_process(self.process(), Signal::TERM).expect("the broker is running");
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
                return status;
            }
            assert!(Instant::now() < deadline, "the broker did not end within {PATIENCE:?} of SIGTERM\n{}", self.log());
            pause();
        }
    }

    fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Whether the process is there.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("the child can be waited for").is_none()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// What it wrote to `endpoints.json`.
    #[must_use]
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Service URL of the binary protocol.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.endpoints.pulsar
    }

    /// Service URL of the HTTP interface.
    #[must_use]
    pub fn http(&self) -> &str {
        &self.endpoints.http
    }

    /// Where the binary protocol listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        host_and_port(self.url())
    }

    /// Everything the broker has printed, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        (1..=self.starts).filter_map(|start| fs::read_to_string(log_file(self.home.path(), start)).ok()).collect()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- the broker's log\n{}---", self.log());
        }
    }
}

/// Runs `geminga` with these arguments until it ends, and returns its status and everything it printed.
#[must_use]
pub fn run(arguments: &[&str], data: &Path) -> (ExitStatus, String) {
    let log = data.join("run.log");
    let out = File::create(&log).expect("the log can be written");
    let mut child = Command::new(binary())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("a second handle"))
        .stderr(out)
        .spawn()
        .expect("geminga can be started");
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("`geminga {arguments:?}` did not end\n{}", fs::read_to_string(&log).unwrap_or_default());
        }
        pause();
    };
    (status, fs::read_to_string(&log).unwrap_or_default())
}

/// The `geminga` binary: `GEMINGA_BIN`, else built now, in the profile of this test.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("GEMINGA_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

fn build() -> PathBuf {
    let here = std::env::current_exe().expect("the path of this test");
    let profile_dir = here.ancestors().find(|dir| dir.join(".fingerprint").is_dir()).expect("cargo's target directory").to_owned();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "-p", "geminga-geminga", "--bin", "geminga", "--target-dir"]);
    build.arg(profile_dir.parent().expect("a target directory")).current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile_dir.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().expect("cargo runs").success(), "geminga does not build");
    profile_dir.join("geminga")
}

/// The command line of a broker on this directory, ready to be spawned.
#[must_use]
pub fn command(data: &Path, ports: (&str, &str)) -> Command {
    let mut command = Command::new(binary());
    command.arg("--data").arg(data);
    command.args(["--set", &format!("brokerServicePort={}", ports.0)]);
    command.args(["--set", &format!("webServicePort={}", ports.1)]);
    command.stdin(Stdio::null());
    // What steers the tests would be settings to the broker.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|name| name.starts_with("GEMINGA_"))) {
        command.env_remove(name);
    }
    command
}

fn spawn(data: &Path, setup: &Setup, ports: (&str, &str), log: &Path) -> Child {
    let log = File::create(log).expect("the log can be written");
    let mut command = command(data, ports);
    for (key, value) in &setup.settings {
        command.args(["--set", &format!("{key}={value}")]);
    }
    command.stdout(log.try_clone().expect("a second handle")).stderr(log).spawn().expect("geminga can be started")
}

fn log_file(home: &Path, start: u32) -> PathBuf {
    home.join(format!("broker-{start}.log"))
}

fn wait_until_ready(child: &mut Child, data: &Path, log: &Path) -> Endpoints {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // After a kill -9 the file of the dead process is still there; the pid tells them apart.
        if let Some(endpoints) = Endpoints::read(data).filter(|endpoints| endpoints.pid == child.id()) {
            return endpoints;
        }
        let ended = child.try_wait().expect("the child can be waited for");
        if ended.is_some() || Instant::now() > deadline {
            let _ = child.kill();
            let log = fs::read_to_string(log).unwrap_or_default();
            panic!("the broker was not ready within {PATIENCE:?} (ended: {ended:?})\n{log}");
        }
        pause();
    }
}

/// Host and port of a URL that has a port.
#[must_use]
pub fn host_and_port(url: &str) -> SocketAddr {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/');
    rest.replace("localhost", "127.0.0.1").parse().unwrap_or_else(|error| panic!("`{url}` has no address and port: {error}"))
}

fn port_of(url: &str) -> String {
    host_and_port(url).port().to_string()
}

fn pause() {
    std::thread::sleep(Duration::from_millis(2));
}

/// Fails the test when the future takes longer than [`PATIENCE`].
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: nothing within {PATIENCE:?}"),
    }
}

/// Polls until the condition holds; fails the test after [`PATIENCE`].
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
