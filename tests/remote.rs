//! `geminga admin` and its neighbours against a running broker: what an operator types, and what a script reads.

use std::path::Path;
use std::process::{Command, Output};

use geminga_tests::harness::{Broker, binary};
use serde_json::Value;

/// A person at a shell, with a directory for contexts and files.
struct Shell<'b> {
    broker: &'b Broker,
    home: tempfile::TempDir,
}

impl<'b> Shell<'b> {
    fn new(broker: &'b Broker) -> Self {
        Self { broker, home: tempfile::tempdir().unwrap() }
    }

    fn run(&self, line: &str) -> Output {
        run(line, self.home.path(), &[("GEMINGA_ADMIN_URL", self.broker.http()), ("GEMINGA_URL", self.broker.url())])
    }

    /// The output of a command that must succeed.
    fn out(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.out(line)).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// What a command says that must fail.
    fn err(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.home.path().join(file), text).unwrap();
    }
}

fn run(line: &str, home: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary());
    command.args(line.split_whitespace()).current_dir(home).env("GEMINGA_CONTEXTS", home.join("contexts.json"));
    command.envs(variables.iter().copied()).output().expect("geminga can be started")
}

#[test]
fn a_topic_is_made_looked_at_and_removed() {
    let broker = Broker::start();
    let shell = Shell::new(&broker);
    shell.out("admin topics create orders");
    shell.out("admin topics create-partitioned-topic parts -p 2");
    let names = "persistent://public/default/orders\npersistent://public/default/parts-partition-0\npersistent://public/default/parts-partition-1\n";
    assert_eq!(shell.out("admin topics list public/default"), names);
    shell.out("produce orders -m hello -n 3");
    // Where nobody looks, the broker's JSON goes on.
    assert_eq!(shell.json("admin topics stats orders")["msgInCounter"], 3);
    assert_eq!(shell.json("admin topics get-partitioned-topic-metadata parts")["partitions"], 2);
    shell.out("admin topics delete orders --force");
    let error = shell.err("admin topics stats orders");
    assert!(error.contains("not found") && error.contains("404") && error.contains(broker.http()), "{error}");
}

#[test]
fn a_policy_is_set_with_units_as_pulsars_tools_have_it_and_taken_back() {
    let broker = Broker::start();
    let shell = Shell::new(&broker);
    shell.out("admin namespaces set-message-ttl public/default -ttl 1d");
    assert_eq!(shell.out("admin namespaces get-message-ttl public/default"), "86400\n");
    shell.out("admin namespaces remove-message-ttl public/default");
    assert_eq!(shell.out("admin namespaces get-message-ttl public/default"), "");
    assert_eq!(shell.out("admin namespaces get-message-ttl public/default --json"), "null\n");
    let error = shell.err("admin namespaces set-message-ttl public/default -ttl soon");
    assert!(error.contains("30s"), "{error}");
}

#[test]
fn contexts_remember_a_broker() {
    let broker = Broker::start();
    let home = tempfile::tempdir().unwrap();
    let there = format!("admin context set here --admin-url {}", broker.http());
    assert!(run(&there, home.path(), &[]).status.success());
    assert!(run("admin context set nowhere --admin-url http://localhost:1", home.path(), &[]).status.success());
    // The last one that was set is the current one.
    assert!(!run("admin tenants list", home.path(), &[]).status.success());
    let listed = run("admin --context here tenants list", home.path(), &[]);
    assert!(String::from_utf8_lossy(&listed.stdout).lines().any(|line| line == "public"));
    assert!(run("admin context use here", home.path(), &[]).status.success());
    assert!(run("admin tenants list", home.path(), &[]).status.success());
    let unknown = run("admin --context heer tenants list", home.path(), &[]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("here, nowhere"));
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(home.path().join("contexts.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it may hold tokens");
}

#[test]
fn check_tells_by_its_exit_code_whether_a_broker_is_well() {
    let broker = Broker::start();
    let shell = Shell::new(&broker);
    assert_eq!(shell.out("check"), "ok\n");
    assert_eq!(shell.out("check ready --wait 10"), "ok\n");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = shell.err(&format!("check --admin-url http://{nobody}"));
    assert!(error.contains(&nobody.to_string()) && error.contains("`geminga`"), "{error}");
}

#[test]
fn a_file_is_applied_and_the_second_time_nothing_is_left_to_do() {
    let broker = Broker::start();
    let shell = Shell::new(&broker);
    let house = "
tenants:
  acme: {adminRoles: [ops]}
namespaces:
  acme/orders: {messageTTL: 3600, deduplication: true}
topics:
  persistent://acme/orders/new: {partitions: 2}
";
    shell.write("house.yaml", house);
    let planned = shell.out("apply -f house.yaml --dry-run");
    assert!(planned.contains("+ tenant acme") && planned.contains("5 to change"), "{planned}");
    assert!(!shell.out("admin tenants list").contains("acme"), "a dry run changes nothing");
    assert!(shell.out("apply -f house.yaml").contains("5 changed"));
    assert_eq!(shell.out("admin namespaces get-message-ttl acme/orders"), "3600\n");
    let again = shell.out("apply -f house.yaml");
    assert!(again.starts_with("0 changed"), "{again}");

    shell.write("house.yaml", &house.replace("3600", "60").replace("partitions: 2", "partitions: 3"));
    let changed = shell.out("apply -f house.yaml");
    assert!(changed.contains("messageTTL: 3600 -> 60") && changed.contains("partitions: 2 -> 3"), "{changed}");
    shell.write("house.yaml", &house.replace("partitions: 2", "partitions: 1"));
    let refused = shell.err("apply -f house.yaml");
    assert!(refused.contains("nothing was changed") && refused.contains("has 3 partitions"), "{refused}");
    assert_eq!(shell.out("admin namespaces get-message-ttl acme/orders"), "60\n", "refused as a whole");
}

#[test]
fn the_doctors_file_has_what_a_bug_report_needs_and_no_secret() {
    let broker = Broker::start();
    let shell = Shell::new(&broker);
    shell.out("produce orders -m hello");
    shell.write("broker.log", &broker.log());
    let told = shell.out("doctor -o report.json --log broker.log");
    assert!(told.contains("the broker is well"), "{told}");
    let report = std::fs::read_to_string(shell.home.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["health"], "ok");
    assert_eq!(report["topics"]["persistent://public/default/orders"]["msgInCounter"], 1);
    assert!(report["metrics"].as_str().unwrap().contains("pulsar_"));
    assert!(report["log"].as_str().is_some_and(|log| !log.is_empty()));
}

#[test]
fn shells_get_their_completion() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&format!("completion {shell}"), home.path(), &[]);
        let script = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && script.contains("set-message-ttl"), "{shell}");
    }
}
