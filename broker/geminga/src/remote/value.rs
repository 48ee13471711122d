//! From what is written on the command line to what is sent.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use wire::names::{NamespaceName, TopicName};

use super::verb::Kind;

/// Everything but what a segment of a path may hold as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text as one segment of a path or one value of a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// What is sent for `text`. The error tells how to write it.
pub(crate) fn read(kind: Kind, text: &str) -> Result<Value, String> {
    Ok(match kind {
        Kind::Text | Kind::OneOf(_) | Kind::Topic | Kind::TopicOfAnyDomain => Value::from(text),
        Kind::Integer => Value::from(text.parse::<i64>().map_err(|_| "write a whole number")?),
        Kind::Real => Value::from(text.parse::<f64>().map_err(|_| "write a number, as in 1.5")?),
        Kind::Bytes => Value::from(bytes(text)?),
        Kind::Megabytes => match bytes(text)? {
            less if less < 0 => Value::from(-1),
            size => Value::from(size.cast_unsigned().div_ceil(1 << 20)),
        },
        Kind::Seconds => Value::from(duration_ms(text, 1_000)? / 1_000),
        Kind::Minutes => Value::from(duration_ms(text, 60_000)? / 60_000),
        Kind::Millis => Value::from(duration_ms(text, 1)?),
        Kind::Ago => Value::from((now_ms() - duration_ms(text, 1_000)?).max(0)),
        Kind::Yes | Kind::OnOff => Value::from(text == "true"),
        Kind::List => text.split(',').map(|item| Value::from(item.trim())).collect(),
        Kind::Pairs => pairs(text)?,
        Kind::MessageId => message_id(text)?,
        Kind::JsonFile => {
            let read = fs::read_to_string(text).map_err(|error| format!("cannot read it: {error}"))?;
            serde_json::from_str(&read).map_err(|error| format!("it does not hold JSON: {error}"))?
        }
        Kind::Namespace => {
            text.parse::<NamespaceName>().map_err(|error| format!("{error}; write TENANT/NAMESPACE"))?;
            Value::from(text)
        }
    })
}

/// The same as part of a path.
pub(crate) fn path(kind: Kind, text: &str) -> Result<String, String> {
    let topic = || text.parse::<TopicName>().map_err(|error| format!("{error}; write NAME, or persistent://TENANT/NAMESPACE/NAME"));
    Ok(match kind {
        Kind::Namespace => {
            let namespace: NamespaceName = text.parse().map_err(|error| format!("{error}; write TENANT/NAMESPACE"))?;
            format!("{}/{}", encoded(namespace.tenant()), encoded(namespace.local()))
        }
        Kind::Topic => {
            let topic = topic()?;
            let domain = if topic.is_persistent() { "persistent" } else { "non-persistent" };
            format!("{domain}/{}", below_domain(&topic))
        }
        Kind::TopicOfAnyDomain => below_domain(&topic()?),
        Kind::MessageId => encoded(text),
        _ => match read(kind, text)? {
            Value::String(text) => encoded(&text),
            other => encoded(&other.to_string()),
        },
    })
}

/// Where a namespace is in the admin interface.
pub(crate) fn namespace_path(name: &str) -> Result<String, String> {
    path(Kind::Namespace, name).map(|path| format!("/admin/v2/namespaces/{path}"))
}

/// Where a topic is in the admin interface.
pub(crate) fn topic_path(name: &str) -> Result<String, String> {
    path(Kind::Topic, name).map(|path| format!("/admin/v2/{path}"))
}

fn below_domain(topic: &TopicName) -> String {
    let namespace = topic.namespace();
    format!("{}/{}/{}", encoded(namespace.tenant()), encoded(namespace.local()), encoded(topic.local()))
}

/// The number and the letters behind it.
fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()))
}

fn bytes(text: &str) -> Result<i64, String> {
    let wrong = || format!("`{text}` is no size: write it as in 500K, 10M, 2G or 1T, or as a number of bytes; -1 is no limit");
    let (number, unit) = split(text);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    number.parse::<i64>().ok().and_then(|number| number.checked_mul(1 << shift)).ok_or_else(wrong)
}

fn duration_ms(text: &str, unit_without_letter: i64) -> Result<i64, String> {
    let wrong = || format!("`{text}` is no time: write it as in 30s, 10m, 2h, 7d or 1w; -1 is no limit");
    let (number, unit) = split(text);
    let ms = match unit {
        "" => unit_without_letter,
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        _ => return Err(wrong()),
    };
    number.parse::<i64>().ok().and_then(|number| number.checked_mul(ms)).ok_or_else(wrong)
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn pairs(text: &str) -> Result<Value, String> {
    let pair = |pair: &str| match pair.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), Value::from(value))),
        _ => Err(format!("`{pair}` is no pair: write NAME=VALUE,NAME=VALUE")),
    };
    text.split(',').filter(|pair| !pair.is_empty()).map(pair).collect::<Result<serde_json::Map<_, _>, _>>().map(Value::Object)
}

fn message_id(text: &str) -> Result<Value, String> {
    let (ledger, entry, partition) = match text {
        "earliest" => (-1, -1, -1),
        "latest" => (i64::MAX, i64::MAX, -1),
        _ => {
            let numbers: Vec<i64> = text.split(':').map_while(|part| part.parse().ok()).collect();
            match numbers[..] {
                [ledger, entry] if text.matches(':').count() == 1 => (ledger, entry, -1),
                [ledger, entry, partition] if text.matches(':').count() == 2 => (ledger, entry, partition),
                _ => return Err(format!("`{text}` is no message id: write LEDGER:ENTRY, earliest or latest")),
            }
        }
    };
    Ok(json!({"ledgerId": ledger, "entryId": entry, "partitionIndex": partition}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        for (kind, text, value) in [
            (Kind::Bytes, "10K", 10_240),
            (Kind::Bytes, "2GiB", 2_i64 << 30),
            (Kind::Bytes, "-1", -1),
            (Kind::Megabytes, "10G", 10_240),
            (Kind::Megabytes, "1", 1),
            (Kind::Megabytes, "-1", -1),
            (Kind::Minutes, "3h", 180),
            (Kind::Minutes, "90", 90),
            (Kind::Seconds, "2m", 120),
            (Kind::Seconds, "7", 7),
            (Kind::Millis, "1s", 1_000),
        ] {
            assert_eq!(read(kind, text), Ok(Value::from(value)), "{text}");
        }
        for (kind, wrong) in [(Kind::Bytes, "10X"), (Kind::Bytes, "99999999999T"), (Kind::Seconds, "1y"), (Kind::Minutes, "soon")] {
            let error = read(kind, wrong).unwrap_err();
            assert!(error.contains(wrong) && error.contains("write it as"), "{error}");
        }
    }

    #[test]
    fn names_become_segments_of_a_path() {
        assert_eq!(path(Kind::Topic, "orders").unwrap(), "persistent/public/default/orders");
        assert_eq!(path(Kind::Topic, "non-persistent://a/b/c d").unwrap(), "non-persistent/a/b/c%20d");
        assert_eq!(path(Kind::TopicOfAnyDomain, "persistent://a/b/é").unwrap(), "a/b/%C3%A9");
        assert_eq!(path(Kind::Namespace, "a/b").unwrap(), "a/b");
        assert_eq!(path(Kind::Text, "a/b?").unwrap(), "a%2Fb%3F");
        assert!(path(Kind::Namespace, "a").unwrap_err().contains("TENANT/NAMESPACE"));
    }

    #[test]
    fn message_ids_are_pairs_or_words() {
        assert_eq!(read(Kind::MessageId, "3:4").unwrap()["entryId"], 4);
        assert_eq!(read(Kind::MessageId, "earliest").unwrap()["ledgerId"], -1);
        for wrong in ["3", "3:x", "1:2:3:4", "a:b", ":"] {
            assert!(read(Kind::MessageId, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_and_pairs_are_separated_by_commas() {
        assert_eq!(read(Kind::List, "a, b").unwrap(), json!(["a", "b"]));
        assert_eq!(read(Kind::Pairs, "a=1,b=x=y").unwrap(), json!({"a": "1", "b": "x=y"}));
        assert!(read(Kind::Pairs, "a").is_err());
    }
}
