//! The types of values that the worker has.

/// A type, without its modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Type {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    /// `text` and `varchar`.
    Text,
    /// `char(n)`.
    Bpchar,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Uuid,
    Bytea,
    /// The time between two timestamps, which is days and a time of one sign. Others are constants
    /// alone: beside `+`, `-` and comparisons.
    Interval,
}

/// Oids of pg_type.dat.
const TYPES: &[(u32, Type)] = &[
    (16, Type::Bool),
    (21, Type::Int2),
    (23, Type::Int4),
    (20, Type::Int8),
    (700, Type::Float4),
    (701, Type::Float8),
    (1700, Type::Numeric),
    (25, Type::Text),
    (1043, Type::Text),
    (1042, Type::Bpchar),
    (1082, Type::Date),
    (1083, Type::Time),
    (1114, Type::Timestamp),
    (1184, Type::TimestampTz),
    (2950, Type::Uuid),
    (17, Type::Bytea),
    (1186, Type::Interval),
];

/// The digits that the worker's numbers have at most.
pub const DIGITS_MAX: u8 = 38;

impl Type {
    /// The type of an oid; None: the worker does not have it.
    pub fn of(oid: u32) -> Option<Type> {
        TYPES.iter().find(|(of, _)| *of == oid).map(|(_, of)| *of)
    }

    /// Whether a column of this type and modifier is mirrored.
    pub fn is_mirrored(self, typmod: i32) -> bool {
        match self {
            Type::Interval => false,
            // Without a length its blanks are part of what PostgreSQL shows, and not of the state.
            Type::Bpchar => width(typmod).is_some(),
            Type::Numeric => {
                numeric_modifier(typmod).is_some_and(|(precision, scale)| precision <= DIGITS_MAX && scale <= precision)
            }
            _ => true,
        }
    }

    /// Its name in the worker's CAST; None: it is made by `arrow_cast` or a function.
    pub(crate) fn cast_name(self) -> Option<&'static str> {
        Some(match self {
            Type::Bool => "BOOLEAN",
            Type::Int2 => "SMALLINT",
            Type::Int4 => "INT",
            Type::Int8 => "BIGINT",
            Type::Float4 => "REAL",
            Type::Float8 => "DOUBLE",
            Type::Text | Type::Bpchar => "VARCHAR",
            Type::Date => "DATE",
            _ => return None,
        })
    }

    /// Its name for `arrow_cast`.
    pub(crate) fn arrow_name(self) -> Option<&'static str> {
        Some(match self {
            Type::Time => "Time64(Microsecond)",
            Type::Timestamp => "Timestamp(Microsecond, None)",
            Type::TimestampTz => "Timestamp(Microsecond, Some(\"+00:00\"))",
            Type::Uuid => "FixedSizeBinary(16)",
            Type::Bytea => "BinaryView",
            Type::Interval => "Duration(Microsecond)",
            _ => return None,
        })
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Type::Int2 | Type::Int4 | Type::Int8)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Type::Float4 | Type::Float8)
    }
}

/// Precision and scale of `numeric(p, s)`; None: without a modifier, or with a negative scale.
pub fn numeric_modifier(typmod: i32) -> Option<(u8, u8)> {
    // numeric.c: 4 for the header, 16 bits of precision, 11 bits of scale with its sign.
    let packed = typmod.checked_sub(4).filter(|packed| *packed >= 0)?;
    let precision = u8::try_from(packed >> 16).ok()?;
    let scale = ((packed & 0x7ff) ^ 1024) - 1024;
    Some((precision, u8::try_from(scale).ok()?))
}

/// Characters of `char(n)`; None: without a modifier.
pub(crate) fn width(typmod: i32) -> Option<usize> {
    usize::try_from(typmod.checked_sub(4)?).ok().filter(|n| *n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers() {
        assert_eq!(numeric_modifier((15 << 16 | 2) + 4), Some((15, 2)));
        assert_eq!(numeric_modifier(-1), None);
        // numeric(5, -2)
        assert_eq!(numeric_modifier((5 << 16 | (-2 & 0x7ff)) + 4), None);
        assert_eq!((width(-1), width(5)), (None, Some(1)));
        assert!(!Type::Numeric.is_mirrored((39 << 16 | 2) + 4));
        assert!(!Type::Numeric.is_mirrored((2 << 16 | 5) + 4));
        assert!(Type::Numeric.is_mirrored((38 << 16 | 38) + 4));
        assert!(!Type::Bpchar.is_mirrored(-1));
        assert!(Type::Bpchar.is_mirrored(8));
    }
}
