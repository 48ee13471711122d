//! The first minute: a topic filled and emptied without any client library.

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

use geminga_tests::harness::{Broker, binary};

fn geminga(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(binary())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("geminga can be started");
    // One that fails early does not read what it was given; that is its business.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    child.wait_with_output().expect("ends")
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, err(output));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn lines_go_in_and_come_out_from_the_first_one_on() {
    let broker = Broker::start();
    out(&geminga(&["produce", "t", "-u", broker.url()], "one\ntwo\r\n\nfour"));
    let consumed = geminga(&["consume", "t", "-u", broker.url(), "-n", "4"], "");
    assert_eq!(out(&consumed), "one\ntwo\n\nfour\n");
    assert!(err(&consumed).contains("persistent://public/default/t"), "{}", err(&consumed));
    assert!(err(&consumed).contains("earliest"), "{}", err(&consumed));
    // Without a subscription nothing was remembered.
    assert_eq!(out(&geminga(&["consume", "t", "-u", broker.url(), "-n", "1"], "")), "one\n");
}

#[test]
fn a_subscription_remembers_its_place() {
    let broker = Broker::start();
    out(&geminga(&["produce", "t", "-u", broker.url(), "-m", "a", "-m", "b", "-n", "5"], ""));
    let consume = |n| out(&geminga(&["consume", "t", "-u", broker.url(), "-s", "s", "--type", "shared", "-n", n], ""));
    assert_eq!(consume("2"), "a\nb\n");
    assert_eq!(consume("3"), "a\nb\na\n");
}

#[test]
fn json_has_all_that_was_said_about_a_message() {
    let broker = Broker::start();
    let sent = out(&geminga(&["produce", "t", "-u", broker.url(), "-m", "hi", "-k", "key", "-p", "a=b", "--json"], ""));
    let sent: serde_json::Value = serde_json::from_str(&sent).expect("one JSON object");
    let got = out(&geminga(&["consume", "t", "-u", broker.url(), "-n", "1", "--json"], ""));
    let got: serde_json::Value = serde_json::from_str(&got).expect("one JSON object");
    assert_eq!((&sent["size"], &sent["messageId"]), (&serde_json::json!(2), &got["messageId"]));
    assert_eq!((&got["payload"], &got["key"], &got["properties"]["a"]), (&"hi".into(), &"key".into(), &"b".into()));
}

#[test]
fn files_go_in_and_come_out_unchanged() {
    let broker = Broker::start();
    let directory = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..100_000).map(|n: u32| (n % 256) as u8).collect();
    let file = directory.path().join("in.bin");
    std::fs::write(&file, &bytes).unwrap();
    out(&geminga(&["produce", "t", "-u", broker.url(), file.to_str().unwrap(), "-n", "2"], ""));
    let received = directory.path().join("received");
    out(&geminga(&["consume", "t", "-u", broker.url(), "-n", "2", "--out", received.to_str().unwrap()], ""));
    let files: Vec<_> = std::fs::read_dir(received).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(files.len() == 2 && files.iter().all(|file| *file == bytes));
}

#[test]
fn without_a_broker_both_say_how_to_start_one() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("pulsar://{}", free.local_addr().unwrap());
    drop(free);
    for command in ["produce", "consume"] {
        let output = geminga(&[command, "t", "-u", &url], "x\n");
        assert_eq!(output.status.code(), Some(1));
        assert!(err(&output).contains("geminga`"), "{}", err(&output));
    }
}

#[test]
fn what_the_broker_refuses_is_told_with_a_way_out() {
    let broker = Broker::start();
    let output = geminga(&["produce", "nobody/here/t", "-u", broker.url()], "x\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("TopicNotFound") && err(&output).contains("create"), "{}", err(&output));
}
