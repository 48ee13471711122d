//! Names as components of a path, spelt as Java's `URLEncoder` and `URLDecoder` do: what Pulsar reads and writes.

use std::fmt::Write;

/// Spells any text as one component. Letters, digits and `. - * _` stay, a space becomes `+`, every other byte of
/// its UTF-8 becomes `%XX`.
pub fn encode(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => encoded.push(char::from(byte)),
            b' ' => encoded.push('+'),
            // Writing to a String cannot fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

/// Reads a component; none when a `%` is not followed by two hexadecimal digits or the bytes are not UTF-8.
pub fn decode(component: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(component.len());
    let mut rest = component.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, after) = rest.split_first_chunk::<2>()?;
                bytes.push(hex(digits[0])? << 4 | hex(digits[1])?);
                rest = after;
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Whether a text may name a cluster, a tenant or a namespace: letters, digits and `- = : . _`, at least one, and not `.` or `..`.
pub fn is_entity_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'=' | b':' | b'.' | b'_');
    !name.is_empty() && name != "." && name != ".." && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn components_are_spelt_as_java_spells_them() {
        for (name, component) in [
            ("orders-1.a_b*", "orders-1.a_b*"),
            ("a b", "a+b"),
            ("a+b", "a%2Bb"),
            ("a/b", "a%2Fb"),
            ("a%b", "a%25b"),
            ("ü", "%C3%BC"),
            ("~:@=", "%7E%3A%40%3D"),
        ] {
            assert_eq!(encode(name), component);
            assert_eq!(decode(component).as_deref(), Some(name));
        }
    }

    #[test]
    fn broken_components_are_none() {
        for broken in ["%", "%1", "%zz", "%+1", "%FF"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
        assert_eq!(decode("%c3%bc").as_deref(), Some("ü"), "small hexadecimal digits are read too");
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(name in ".*") {
            let component = encode(&name);
            prop_assert!(!component.contains('/'));
            prop_assert_eq!(decode(&component), Some(name));
        }
    }

    #[test]
    fn entity_names_are_what_pulsar_allows() {
        for good in ["public", "my-tenant_1", "a=b:c.d"] {
            assert!(is_entity_name(good), "{good}");
        }
        for bad in ["", "a/b", "a b", "ü", "a%20", ".", "..", "a+b"] {
            assert!(!is_entity_name(bad), "{bad}");
        }
    }
}
