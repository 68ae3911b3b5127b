//! The first byte of an encoded value: its logical type.

macro_rules! tags {
    ($($name:ident = $byte:literal, $doc:literal;)*) => {
        /// Logical type of an encoded value (table "Values" of `spec/formats.md`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Tag {
            $(#[doc = $doc] $name = $byte,)*
        }

        impl Tag {
            /// Every tag, ascending.
            pub const ALL: &'static [Tag] = &[$(Tag::$name),*];

            /// The tag that `byte` stands for, if any.
            pub const fn from_byte(byte: u8) -> Option<Tag> {
                match byte {
                    $($byte => Some(Tag::$name),)*
                    _ => None,
                }
            }
        }
    };
}

tags! {
    Bool = 0x01, "boolean";
    Int = 0x02, "smallint, integer, bigint";
    Numeric = 0x03, "numeric";
    Float = 0x04, "real, double precision";
    Text = 0x05, "text, varchar, char, name, citext";
    Bytea = 0x06, "bytea";
    Date = 0x07, "date";
    Time = 0x08, "time without time zone";
    Timestamp = 0x09, "timestamp without time zone";
    TimestampTz = 0x0A, "timestamp with time zone";
    Uuid = 0x0B, "uuid";
    Json = 0x0C, "json, jsonb";
    Array = 0x0D, "array";
    Composite = 0x0E, "composite";
    Enum = 0x0F, "enum";
    Interval = 0x10, "interval";
    Net = 0x11, "inet, cidr, macaddr, macaddr8";
    Range = 0x12, "range, multirange";
    Other = 0x7F, "any other type, as its text output";
}

/// Stands for a NULL element of an array; never a value by itself.
pub(crate) const NULL_ELEMENT: u8 = 0x00;
