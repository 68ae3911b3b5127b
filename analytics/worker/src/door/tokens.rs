//! Tokens of clients, from the node's tokens file (abci/access/tokens.go).

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::door::kept::{read, Kept};

const TOKENS_MAX: usize = 1_000;
const NAME_BYTES_MAX: usize = 63;
/// Rights of a file that others could read or change.
const OTHERS: u32 = 0o037;

/// SHA-256 of a token.
type Sum = [u8; 32];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    tokens: Option<Vec<ListedToken>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedToken {
    name: String,
    role: String,
    sha256: String,
    expires: Option<String>,
}

struct Token {
    role: String,
    sum: Sum,
    expires: Option<DateTime<Utc>>,
}

/// The tokens file, which is read again when it has changed.
pub struct Tokens(Kept<Vec<Token>>);

/// A client that has shown a token.
#[derive(Clone)]
pub struct Shown {
    /// The token's role.
    pub role: String,
    sum: Sum,
}

impl Shown {
    /// The token that a client shows.
    pub fn new(role: &str, token: &str) -> Shown {
        Shown { role: role.into(), sum: Sha256::digest(token).into() }
    }
}

impl Tokens {
    /// Reads a tokens file. One that is not there has no tokens.
    ///
    /// # Errors
    /// A file that cannot be read, or that others could read; a sentence without its text.
    pub fn open(path: PathBuf) -> Result<Tokens, String> {
        Ok(Tokens(Kept::new(vec![path.clone()], move || tokens(&path))?))
    }

    /// Whether a token counts now, for the role that it was shown for. A file that cannot be read
    /// has no tokens.
    pub fn count(&self, shown: &Shown) -> bool {
        self.0.now().is_ok_and(|tokens| is_one(&tokens, shown, SystemTime::now().into()))
    }
}

/// Looks at each token, so that the time tells nothing of them.
fn is_one(tokens: &[Token], shown: &Shown, now: DateTime<Utc>) -> bool {
    let found = tokens.iter().fold(Choice::from(0), |found, token| {
        let counts = token.role == shown.role && token.expires.is_none_or(|expires| now < expires);
        found | (token.sum.ct_eq(&shown.sum) & Choice::from(u8::from(counts)))
    });
    found.into()
}

fn tokens(path: &Path) -> Result<Vec<Token>, String> {
    let text = read(path, |of| {
        let mode = std::os::unix::fs::MetadataExt::mode(of) & 0o777;
        match mode & OTHERS {
            0 => Ok(()),
            _ => Err(format!("it has mode {mode:o}: others could read or change the tokens, want 0600 or 0640")),
        }
    })?;
    text.map_or(Ok(Vec::new()), |text| parse(&text).map_err(|why| format!("{}: {why}", path.display())))
}

/// Errors never quote the text: somebody may have put a token there in place of its hash.
fn parse(text: &[u8]) -> Result<Vec<Token>, String> {
    let listed: Listed = serde_json::from_slice(text)
        .map_err(|_| "it is no tokens file: make it with \"chainify client token add\"".to_owned())?;
    let listed = listed.tokens.unwrap_or_default();
    if listed.len() > TOKENS_MAX {
        return Err(format!("it has {} tokens, at most {TOKENS_MAX} are possible", listed.len()));
    }
    let checked = listed.iter().enumerate().map(|(at, token)| {
        checked(token).ok_or_else(|| format!("token {} has a name, role, hash or time that cannot be", at + 1))
    });
    checked.collect()
}

fn checked(token: &ListedToken) -> Option<Token> {
    let named = (1..=NAME_BYTES_MAX).contains(&token.name.len());
    // "none" is what PostgreSQL's SET ROLE takes for the session's own user.
    let role = (1..=NAME_BYTES_MAX).contains(&token.role.len()) && !token.role.contains('\0') && token.role != "none";
    let expires = match &token.expires {
        None => None,
        Some(time) => Some(DateTime::parse_from_rfc3339(time).ok()?.to_utc()),
    };
    (named && role).then_some(())?;
    Some(Token { role: token.role.clone(), sum: sum(&token.sha256)?, expires })
}

fn sum(digits: &str) -> Option<Sum> {
    let mut sum = [0; 32];
    (digits.len() == 2 * sum.len() && digits.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(())?;
    for (byte, pair) in sum.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of "x".
    const X: &str = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

    fn one(role: &str, sha256: &str, more: &str) -> String {
        format!(r#"{{"tokens": [{{"name": "a", "role": "{role}", "sha256": "{sha256}"{more}}}]}}"#)
    }

    #[test]
    fn a_token_counts_for_its_role_until_it_expires() {
        let at = |time: &str| DateTime::parse_from_rfc3339(time).unwrap().to_utc();
        let tokens = parse(one("clerk", X, r#", "expires": "2026-01-01T00:00:00Z""#).as_bytes()).unwrap();
        let before = at("2025-12-31T23:59:59Z");
        assert!(is_one(&tokens, &Shown::new("clerk", "x"), before));
        assert!(!is_one(&tokens, &Shown::new("clerk", "x"), at("2026-01-01T00:00:00Z")));
        assert!(!is_one(&tokens, &Shown::new("clerk", "y"), before));
        assert!(!is_one(&tokens, &Shown::new("boss", "x"), before));
        assert!(!is_one(&[], &Shown::new("clerk", "x"), before));
    }

    #[test]
    fn files_that_cannot_be() {
        let long = "x".repeat(64);
        for text in [
            "",
            "[]",
            "{}x",
            r#"{"other": 1}"#,
            &one("", X, ""),
            &one("none", X, ""),
            &one(&long, X, ""),
            &one("clerk", "secret", ""),
            &one("clerk", X, r#", "expires": "soon""#),
            &one("clerk", X, r#", "x": 1"#),
        ] {
            let why = parse(text.as_bytes()).err().unwrap_or_else(|| panic!("{text} is taken"));
            assert!(!why.contains("secret"), "{why}");
        }
        assert!(parse(b"{\"tokens\": null}").unwrap().is_empty());
    }

    #[test]
    fn a_file_is_read_again() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("chainify-tokens-{}", std::process::id()));
        let write = |text: &str, mode| {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let (tokens, shown) = (Tokens::open(path.clone()).unwrap(), Shown::new("clerk", "x"));
        assert!(!tokens.count(&shown));
        write(&one("clerk", X, ""), 0o640);
        assert!(tokens.count(&shown));
        write(&one("clerk", X, ""), 0o644);
        assert!(!tokens.count(&shown));
        assert!(Tokens::open(path.clone()).is_err());
        write("{}", 0o600);
        assert!(!tokens.count(&shown));
        std::fs::remove_file(&path).unwrap();
    }
}
