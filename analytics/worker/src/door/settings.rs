//! The settings of a client of the door.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::command::{self, Command, Sees};
use crate::door::statement::Word;
use crate::engine::Failure;

/// Bytes of the longest value.
const VALUE_BYTES_MAX: usize = 1_000;

/// The values that a setting may have.
#[derive(Clone, Copy, Debug)]
enum May {
    /// Any; it changes nothing here.
    Any,
    /// One of these, in lower case, which all mean what holds here.
    Be(&'static [&'static str]),
    /// A list of schemas; the database reads it.
    BePath,
    /// A time zone; the database reads it.
    BeZone,
    /// Not be set.
    Not,
    /// As the statement of the Unix socket has it.
    BeCommand,
}

/// Name, default, and the values that are possible.
const KNOWN: &[(&str, &str, May)] = &[
    ("application_name", "", May::Any),
    ("bytea_output", "hex", May::Be(&["hex"])),
    ("chainify.block", "", May::BeCommand),
    ("chainify.snapshot", "", May::BeCommand),
    ("client_encoding", "UTF8", May::Be(&["utf8", "utf-8", "unicode"])),
    ("client_min_messages", "notice", May::Any),
    ("datestyle", "ISO, MDY", May::Be(&["iso", "iso, mdy", "iso,mdy"])),
    ("default_transaction_isolation", "repeatable read", May::Any),
    ("default_transaction_read_only", "on", May::Be(&["on", "true", "yes", "1"])),
    ("extra_float_digits", "1", May::Be(&["1", "2", "3"])),
    ("idle_in_transaction_session_timeout", "0", May::Any),
    ("in_hot_standby", "off", May::Not),
    ("integer_datetimes", "on", May::Not),
    ("intervalstyle", "postgres", May::Be(&["postgres"])),
    ("is_superuser", "off", May::Not),
    ("lock_timeout", "0", May::Any),
    ("max_identifier_length", "63", May::Not),
    ("search_path", "\"$user\", public", May::BePath),
    ("server_encoding", "UTF8", May::Not),
    ("server_version", "15.0 (Chainify analytics)", May::Not),
    ("server_version_num", "150000", May::Not),
    ("session_authorization", "", May::Not),
    ("standard_conforming_strings", "on", May::Be(&["on", "true", "yes", "1"])),
    ("statement_timeout", "0", May::BeCommand),
    ("timezone", "UTC", May::BeZone),
    ("transaction_isolation", "repeatable read", May::Any),
    ("transaction_read_only", "on", May::Be(&["on", "true", "yes", "1"])),
];

/// Settings that every client is told at its start, in the spelling of PostgreSQL.
pub const TOLD: &[&str] = &[
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// The settings of a session.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The rows that queries see.
    pub sees: Sees,
    /// How long a statement may take.
    pub timeout: Option<Duration>,
    changed: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Those of a session of this role.
    pub fn new(role: &str) -> Settings {
        let changed = [("session_authorization", role.to_owned())].into();
        Settings { changed, ..Settings::default() }
    }

    /// The value of a setting; None: it is not known here.
    pub fn shown(&self, name: &str) -> Option<&str> {
        let (name, default, _) = known(name)?;
        Some(self.changed.get(name).map_or(default, String::as_str))
    }

    /// Changes a setting. No values: the default.
    ///
    /// # Errors
    /// 42704 for a setting that is not known here, 22023 and 0A000 for a value that cannot be.
    pub fn set(&mut self, name: &str, values: &[Word]) -> Result<(), Failure> {
        let Some((name, default, may)) = known(name) else {
            return Err(Failure::new(
                "42704",
                format!("there is no setting \"{}\" in analytics", name.escape_default()),
            ));
        };
        let value = match may {
            May::BePath => values.iter().map(as_schema).collect::<Vec<_>>().join(", "),
            _ => values.iter().map(Word::text).collect::<Vec<_>>().join(", "),
        };
        if value.len() > VALUE_BYTES_MAX || value.contains('\0') {
            return Err(Failure::new("22023", format!("the value of \"{name}\" is too long")));
        }
        let fits = match may {
            _ if values.is_empty() && !matches!(may, May::BeCommand | May::Not) => {
                self.changed.remove(name);
                return Ok(());
            }
            May::Any | May::BePath | May::BeZone => true,
            May::Be(values) => values.contains(&value.to_ascii_lowercase().as_str()),
            May::Not => false,
            May::BeCommand => {
                let value = if values.is_empty() { default } else { &value };
                self.command(name, value)?;
                self.changed.insert(name, value.to_owned());
                return Ok(());
            }
        };
        match fits {
            // Shown as the default is: "utf-8" and "UTF8" mean one thing.
            true if matches!(may, May::Be(_)) && name != "extra_float_digits" => Ok(()),
            true => {
                self.changed.insert(name, value);
                Ok(())
            }
            false => {
                Err(Failure::new("0A000", format!("\"{name}\" cannot be \"{}\" in analytics", value.escape_debug()))
                    .hint(format!("It is \"{default}\".")))
            }
        }
    }

    /// Puts every setting back.
    pub fn reset(&mut self) {
        *self = Settings::new(self.shown("session_authorization").unwrap_or_default());
    }

    fn command(&mut self, name: &'static str, value: &str) -> Result<(), Failure> {
        let failed = |why: String| Failure::new("22023", why);
        match name {
            "statement_timeout" => self.timeout = timeout(value)?,
            "chainify.snapshot" if value.is_empty() => self.sees = Sees::Newest,
            _ => {
                if value.contains('\'') {
                    return Err(failed(format!("\"{}\" cannot be the value of \"{name}\"", value.escape_debug())));
                }
                match command::parse(&format!("SET {name} = '{value}'")).map_err(failed)? {
                    Command::See(sees) => self.sees = sees,
                    _ => return Err(failed(format!("\"{name}\" cannot be set"))),
                }
            }
        }
        // One of the two holds.
        let other = if name == "chainify.block" { "chainify.snapshot" } else { "chainify.block" };
        if name != "statement_timeout" {
            self.changed.remove(other);
        }
        Ok(())
    }
}

fn known(name: &str) -> Option<(&'static str, &'static str, May)> {
    let name = name.to_ascii_lowercase();
    KNOWN.iter().find(|(known, ..)| *known == name).copied()
}

/// A schema's name as the value of search_path has it.
fn as_schema(word: &Word) -> String {
    match word {
        Word::Plain(name) => name.clone(),
        word => format!("\"{}\"", word.text().replace('"', "\"\"")),
    }
}

/// Milliseconds, or a number with its unit; None: no bound.
fn timeout(value: &str) -> Result<Option<Duration>, Failure> {
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let unit = match value[digits..].trim() {
        "" | "ms" => Some(1),
        "s" => Some(1_000),
        "min" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let milliseconds = unit.and_then(|unit| value[..digits].parse::<u32>().ok()?.checked_mul(unit));
    match milliseconds.filter(|milliseconds| i32::try_from(*milliseconds).is_ok()) {
        Some(0) => Ok(None),
        Some(milliseconds) => Ok(Some(Duration::from_millis(u64::from(milliseconds)))),
        None => Err(Failure::new("22023", format!("\"{}\" is no time", value.escape_debug()))
            .hint("It is a number of milliseconds, or one with ms, s, min or h.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &mut Settings, name: &str, value: &str) -> Result<(), String> {
        settings.set(name, &[Word::Text(value.into())]).map_err(|failure| failure.sqlstate)
    }

    #[test]
    fn values() {
        let mut settings = Settings::new("clerk");
        for (name, value) in [
            ("application_name", "psql"),
            ("Client_Encoding", "utf-8"),
            ("extra_float_digits", "3"),
            ("DateStyle", "ISO"),
            ("TimeZone", "Europe/Berlin"),
            ("default_transaction_read_only", "on"),
        ] {
            assert_eq!(set(&mut settings, name, value), Ok(()), "{name}");
        }
        assert_eq!(settings.shown("application_name"), Some("psql"));
        assert_eq!(settings.shown("CLIENT_ENCODING"), Some("UTF8"));
        assert_eq!(settings.shown("session_authorization"), Some("clerk"));
        assert_eq!(settings.shown("other"), None);
        for (name, value, state) in [
            ("other", "1", "42704"),
            ("role", "boss", "42704"),
            ("client_encoding", "LATIN1", "0A000"),
            ("extra_float_digits", "0", "0A000"),
            ("default_transaction_read_only", "off", "0A000"),
            ("session_authorization", "boss", "0A000"),
            ("statement_timeout", "soon", "22023"),
            ("chainify.block", "x", "22023"),
            ("chainify.snapshot", "a' b", "22023"),
            ("search_path", &"a".repeat(VALUE_BYTES_MAX), "22023"),
        ] {
            assert_eq!(set(&mut settings, name, value), Err(state.into()), "{name}");
        }
        settings.reset();
        assert_eq!(settings.shown("application_name"), Some(""));
        assert_eq!(settings.shown("session_authorization"), Some("clerk"));
    }

    #[test]
    fn what_is_seen() {
        let mut settings = Settings::new("clerk");
        set(&mut settings, "chainify.block", "12").unwrap();
        assert_eq!(settings.sees, Sees::Block(12));
        set(&mut settings, "chainify.snapshot", "month").unwrap();
        assert_eq!(settings.sees, Sees::Snapshot("month".into()));
        assert_eq!(settings.shown("chainify.block"), Some(""));
        settings.set("chainify.block", &[]).unwrap();
        assert_eq!(settings.sees, Sees::Newest);
        settings.set("statement_timeout", &[Word::Plain("2s".into())]).unwrap();
        assert_eq!(settings.timeout, Some(Duration::from_secs(2)));
        set(&mut settings, "statement_timeout", "0").unwrap();
        assert_eq!(settings.timeout, None);
    }

    #[test]
    fn a_path_is_quoted() {
        let mut settings = Settings::new("clerk");
        let words = [Word::Plain("a".into()), Word::Quoted("B".into()), Word::Text("c\", d".into())];
        settings.set("search_path", &words).unwrap();
        assert_eq!(settings.shown("search_path"), Some("a, \"B\", \"c\"\", d\""));
    }
}
