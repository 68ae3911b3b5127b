//! Bytes in hexadecimal digits.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Two lower-case digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| DIGITS[usize::from(digit)] as char).collect()
}

/// The bytes of such digits, in either case; `None`: the text has others, or half a byte.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_digits() {
        let all: Vec<u8> = (0..=255).collect();
        let text = hex(&all);
        assert!(text.starts_with("000102") && text.ends_with("fdfeff") && text.len() == 512, "{text}");
        assert_eq!(from_hex(&text).as_ref(), Some(&all));
        assert_eq!(from_hex(&text.to_uppercase()), Some(all));
        assert_eq!((hex(&[]), from_hex("")), (String::new(), Some(Vec::new())));
    }

    #[test]
    fn other_texts_are_no_digits() {
        for text in ["0", "000", "0g", "g0", "+1", " 1", "é", "\\x00"] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }
}
