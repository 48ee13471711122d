//! What is printed of an answer.

use std::fmt::Write;

use client::Answer;
use serde_json::Value;

use super::verb::Show;

/// For whom it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// On a terminal.
    People,
    /// Into a file or a pipe: lists a name a line, objects as JSON.
    Pipe,
    /// JSON, whatever it is.
    Json,
}

/// The text for an answer.
pub(crate) fn answer(answer: &Answer, show: Show, form: Form) -> String {
    if show == Show::Message {
        return message(answer, form);
    }
    if answer.body.is_empty() {
        // A policy that is not set has no body either.
        return if form == Form::Json { "null\n".to_owned() } else { String::new() };
    }
    let Ok(value) = serde_json::from_slice::<Value>(&answer.body) else {
        let text = String::from_utf8_lossy(&answer.body);
        return if form == Form::Json { format!("{}\n", Value::from(text)) } else { format!("{}\n", text.trim_end()) };
    };
    match (form, show, &value) {
        (Form::Json, ..) => pretty(&value),
        (_, _, Value::Null) => String::new(),
        (_, _, Value::Array(items)) if items.iter().all(|item| !item.is_object()) => lines(items),
        (Form::People, Show::TopicStats, Value::Object(_)) => topic_stats(&value),
        (Form::People, _, Value::Object(_)) => outline(&value),
        (_, _, Value::Object(_) | Value::Array(_)) => pretty(&value),
        (_, _, scalar) => format!("{}\n", plain(scalar)),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).map_or_else(|_| String::new(), |text| text + "\n")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn lines(items: &[Value]) -> String {
    items.iter().map(|item| plain(item) + "\n").collect()
}

/// Keys and values, a line each; what is inside something is set in.
fn outline(value: &Value) -> String {
    let mut text = String::new();
    outline_below(value, 0, &mut text);
    text
}

fn outline_below(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let one = |key: &str, value: &Value, text: &mut String| {
        let is_leaf = match value {
            Value::Object(fields) => fields.is_empty(),
            Value::Array(items) => items.iter().all(|item| !item.is_object() && !item.is_array()),
            _ => true,
        };
        if is_leaf {
            let _ = writeln!(text, "{indent}{key}: {}", plain(value));
        } else {
            let _ = writeln!(text, "{indent}{key}:");
            outline_below(value, depth + 1, text);
        }
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| one(key, value, text)),
        Value::Array(items) => items.iter().enumerate().for_each(|(place, item)| one(&place.to_string(), item, text)),
        scalar => drop(writeln!(text, "{indent}{}", plain(scalar))),
    }
}

fn topic_stats(stats: &Value) -> String {
    let number = |key: &str| stats[key].as_f64().unwrap_or(0.0);
    let count = |key: &str| stats[key].as_array().map_or(0, Vec::len);
    let mut text = String::new();
    let _ = writeln!(text, "in        {:>12.1} messages/s {:>12}/s", number("msgRateIn"), size(number("msgThroughputIn")));
    let _ = writeln!(text, "out       {:>12.1} messages/s {:>12}/s", number("msgRateOut"), size(number("msgThroughputOut")));
    let _ = writeln!(text, "so far    {:>12} in {:>12} out", number("msgInCounter"), number("msgOutCounter"));
    let _ = writeln!(text, "stored    {:>12} backlog {:>7}", size(number("storageSize")), size(number("backlogSize")));
    let _ = writeln!(text, "producers {:>12}", count("publishers"));
    let Some(subscriptions) = stats["subscriptions"].as_object().filter(|found| !found.is_empty()) else {
        return text + "no subscriptions\n";
    };
    let heads = ["SUBSCRIPTION", "TYPE", "CONSUMERS", "BACKLOG", "UNACKED", "OUT/S", "REDELIVERED/S"].map(str::to_owned);
    let row = |(name, stats): (&String, &Value)| {
        let number = |key: &str| plain(&stats[key]);
        let rate = |key: &str| format!("{:.1}", stats[key].as_f64().unwrap_or(0.0));
        let kind = stats["type"].as_str().unwrap_or("-").to_owned();
        let consumers = stats["consumers"].as_array().map_or(0, Vec::len).to_string();
        [name.clone(), kind, consumers, number("msgBacklog"), number("unackedMessages"), rate("msgRateOut"), rate("msgRateRedeliver")]
    };
    text.push('\n');
    text + &table(std::iter::once(heads).chain(subscriptions.iter().map(row)).collect())
}

/// Columns as wide as what is in them; the first two are words.
pub(crate) fn table<const N: usize>(rows: Vec<[String; N]>) -> String {
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// A number of bytes for people.
fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut left = bytes;
    let mut unit = 0;
    while left >= 10_240.0 && unit + 1 < units.len() {
        left /= 1024.0;
        unit += 1;
    }
    format!("{left:.0} {}", units[unit])
}

fn message(answer: &Answer, form: Form) -> String {
    let of_pulsar = answer.headers.iter().filter(|(name, _)| name.as_str().starts_with("x-pulsar-"));
    let headers = of_pulsar.map(|(name, value)| (name.as_str().trim_start_matches("x-pulsar-"), String::from_utf8_lossy(value.as_bytes())));
    let payload = String::from_utf8_lossy(&answer.body);
    if form != Form::People {
        let mut object: serde_json::Map<_, _> = headers.map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
        object.insert("payload".to_owned(), Value::from(payload));
        return format!("{}\n", Value::Object(object));
    }
    let mut text: String = headers.map(|(name, value)| format!("{name}: {value}\n")).collect();
    let _ = writeln!(text, "{} bytes:\n{payload}\n", answer.body.len());
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(body: &Value, show: Show, form: Form) -> String {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        answer(&Answer { status: 200, headers: client::Headers::new(), body: body.into() }, show, form)
    }

    #[test]
    fn lists_are_a_name_a_line_and_objects_are_json_where_nobody_looks() {
        assert_eq!(shown(&json!(["a", "b"]), Show::Plain, Form::Pipe), "a\nb\n");
        assert_eq!(shown(&json!(["a"]), Show::Plain, Form::Json), "[\n  \"a\"\n]\n");
        assert_eq!(shown(&json!({"a": 1}), Show::Plain, Form::Pipe), "{\n  \"a\": 1\n}\n");
        assert_eq!(shown(&json!({"a": {"b": [1, 2]}, "c": {}}), Show::Plain, Form::People), "a:\n  b: [1,2]\nc: {}\n");
    }

    #[test]
    fn what_is_not_set_is_nothing_or_null() {
        assert_eq!(shown(&Value::Null, Show::Plain, Form::Pipe), "");
        assert_eq!(shown(&Value::Null, Show::Plain, Form::Json), "null\n");
        assert_eq!(shown(&json!(-1), Show::Plain, Form::People), "-1\n");
    }

    #[test]
    fn stats_have_a_table_of_subscriptions() {
        let stats = json!({"msgRateIn": 12.5, "msgThroughputIn": 2e6, "publishers": [{}], "subscriptions": {
            "workers": {"type": "Shared", "consumers": [{}, {}], "msgBacklog": 7, "unackedMessages": 3, "msgRateOut": 1.0, "msgRateRedeliver": 0.0}
        }});
        let text = shown(&stats, Show::TopicStats, Form::People);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["workers", "Shared", "2", "7", "3", "1.0", "0.0"]), "{text}");
        assert!(text.contains("12.5 messages/s") && text.contains("1953 KiB/s"), "{text}");
        assert!(shown(&stats, Show::TopicStats, Form::Pipe).starts_with('{'));
    }
}
