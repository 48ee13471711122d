//! Patterns over topic names, as clients subscribe with them, and the hash that tells two lists of topics apart.

use regex_lite::Regex;
use wire::TopicName;

/// A pattern over full names; the scheme does not take part.
pub(crate) struct TopicPattern(Regex);

impl TopicPattern {
    /// # Errors
    /// What is wrong with it, for the client.
    pub(crate) fn new(pattern: &str, max_length: usize) -> Result<TopicPattern, String> {
        if pattern.len() > max_length {
            return Err(format!("the pattern is longer than subscriptionPatternMaxLength, which is {max_length}"));
        }
        let bare = without_scheme(pattern);
        // Java's quoting is the one part of its syntax that clients produce by themselves.
        let bare = unquoted(bare);
        Regex::new(&format!("^(?:{bare})$")).map(TopicPattern).map_err(|error| format!("the pattern cannot be used: {error}"))
    }

    /// Whether the topic is one of those. The broker's own topics never are, and a partition is, if its topic is.
    pub(crate) fn shows(&self, topic: &TopicName) -> bool {
        let base = topic.partitioned().to_string();
        !topic.local().starts_with("__") && self.0.is_match(without_scheme(&base))
    }
}

fn without_scheme(name: &str) -> &str {
    name.split_once("://").map_or(name, |(_, rest)| rest)
}

/// `\Q...\E` spelt out.
fn unquoted(pattern: &str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some((before, quoted)) = rest.split_once("\\Q") {
        out.push_str(before);
        let (inside, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
        out.push_str(&regex_lite::escape(inside));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// CRC-32C of the sorted names joined with commas, as eight hex digits with the low byte first.
pub(crate) fn topics_hash<'a>(sorted: impl IntoIterator<Item = &'a str>) -> String {
    let mut crc = 0;
    for (index, name) in sorted.into_iter().enumerate() {
        if index > 0 {
            crc = crc32c::crc32c_append(crc, b",");
        }
        crc = crc32c::crc32c_append(crc, name.as_bytes());
    }
    crc.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pattern: &str, topic: &str) -> bool {
        TopicPattern::new(pattern, 100).expect("a good pattern").shows(&topic.parse().expect("a topic"))
    }

    #[test]
    fn a_pattern_is_about_the_whole_name_without_its_scheme() {
        assert!(shown("persistent://public/default/foo-.*", "persistent://public/default/foo-1"));
        assert!(shown("public/default/foo-.*", "persistent://public/default/foo-1"));
        assert!(!shown("public/default/foo", "persistent://public/default/foo-1"));
        assert!(!shown("default/foo-.*", "persistent://public/default/foo-1"));
        assert!(shown("persistent://public/default/\\Qa.b\\E.*", "persistent://public/default/a.b-c"));
        assert!(!shown("persistent://public/default/\\Qa.b\\E.*", "persistent://public/default/axb-c"));
    }

    #[test]
    fn partitions_go_with_their_topic_and_system_topics_are_hidden() {
        assert!(shown("public/default/t", "persistent://public/default/t-partition-3"));
        assert!(!shown(".*", "persistent://public/default/__change_events"));
    }

    #[test]
    fn patterns_that_are_too_long_or_broken_are_refused_by_name() {
        assert!(TopicPattern::new("aaa", 2).err().expect("refused").contains("subscriptionPatternMaxLength"));
        assert!(TopicPattern::new("(", 50).err().expect("refused").contains("cannot be used"));
    }

    #[test]
    fn the_hash_of_the_check_value_has_its_low_byte_first() {
        assert_eq!(topics_hash(["123456789"]), "839206e3");
        assert_eq!(topics_hash(["1234", "6789"]), topics_hash(["1234,6789"]));
        assert_eq!(topics_hash([]), "00000000");
    }
}
