//! Names in metadata paths: `application/x-www-form-urlencoded`, as Java's `URLEncoder` has written them in every Pulsar cluster.

use std::borrow::Cow;

/// Why a text is no encoded name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodingError {
    /// `%` is not followed by two hexadecimal digits.
    #[error("incomplete escape in {0:?}")]
    Escape(String),
    /// What the escapes spell is not UTF-8.
    #[error("{0:?} does not decode to UTF-8")]
    NotUtf8(String),
}

/// Letters, digits and `.-*_` stay, a space becomes `+`, everything else `%XX` byte by byte.
pub fn encode_name(name: &str) -> Cow<'_, str> {
    if name.bytes().all(stays) {
        return Cow::Borrowed(name);
    }
    let mut encoded = String::with_capacity(name.len() + 16);
    for byte in name.bytes() {
        match byte {
            _ if stays(byte) => encoded.push(char::from(byte)),
            b' ' => encoded.push('+'),
            _ => {
                encoded.push('%');
                encoded.extend([byte >> 4, byte & 15].map(hex_digit));
            }
        }
    }
    Cow::Owned(encoded)
}

/// The name that was encoded.
pub fn decode_name(encoded: &str) -> Result<Cow<'_, str>, EncodingError> {
    if !encoded.contains(['%', '+']) {
        return Ok(Cow::Borrowed(encoded));
    }
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = rest.next().and_then(hex_value).zip(rest.next().and_then(hex_value));
                let (high, low) = digits.ok_or_else(|| EncodingError::Escape(encoded.to_owned()))?;
                high << 4 | low
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| EncodingError::NotUtf8(encoded.to_owned()))
}

fn stays(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-*_".contains(&byte)
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0').to_ascii_uppercase()
}

fn hex_value(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_is_not_copied() {
        assert!(matches!(encode_name("a.b-c_d*9"), Cow::Borrowed("a.b-c_d*9")));
        assert!(matches!(decode_name("a.b-c_d*9"), Ok(Cow::Borrowed("a.b-c_d*9"))));
    }

    #[test]
    fn half_an_escape_and_broken_utf8_are_refused() {
        assert_eq!(decode_name("a%2"), Err(EncodingError::Escape("a%2".to_owned())));
        assert_eq!(decode_name("a%zz"), Err(EncodingError::Escape("a%zz".to_owned())));
        assert_eq!(decode_name("%C3"), Err(EncodingError::NotUtf8("%C3".to_owned())));
    }

    #[test]
    fn lower_case_escapes_are_read() {
        assert_eq!(decode_name("a%2fb").unwrap(), "a/b");
        assert_eq!(encode_name("a/b"), "a%2Fb");
    }
}
