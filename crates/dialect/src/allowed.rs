//! The functions, operators and aggregates that the worker computes as PostgreSQL does.
//!
//! An operator is the function behind it. A function that is not here is refused. The names stand
//! beside the oids for people; `sql/analytics.sql` compares them with pg_proc.

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// As SQL.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    /// The end of the name of the worker's function for floats.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Comparison::Equal => "eq",
            Comparison::NotEqual => "ne",
            Comparison::Less => "lt",
            Comparison::LessOrEqual => "le",
            Comparison::Greater => "gt",
            Comparison::GreaterOrEqual => "ge",
        }
    }

    /// Whether it depends on an order and not on equality alone.
    pub(crate) fn orders(self) -> bool {
        !matches!(self, Comparison::Equal | Comparison::NotEqual)
    }
}

/// The way to write a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A comparison of two values.
    Compare(Comparison),
    /// `pg_<name>` of two numbers of one type.
    Arithmetic(&'static str),
    /// `pg_<name>` of a number.
    Unary(&'static str),
    /// The argument.
    Same,
    /// LIKE, or NOT LIKE.
    Like(bool),
    /// ILIKE, or NOT ILIKE.
    LikeInAnyCase(bool),
    /// `pg_<name>` of a text: `upper` or `lower`.
    Case(&'static str),
    /// A cast to an integer.
    Integer,
    /// A cast to double precision.
    Float8,
    /// A cast of an integer to numeric.
    ToNumeric,
    /// `numeric(p, s)` of a number.
    NumericModifier,
    /// A cast of char(n) to text.
    TextOfBpchar,
    /// `||` of texts.
    Concatenate,
    /// A function of the worker's with the same arguments.
    Function(&'static str),
    /// The same; only where TimeZone is UTC.
    FunctionInUtc(&'static str),
    /// The same of the second argument, where the first is the constant zone UTC.
    AtUtc(&'static str),
    /// Characters without trailing blanks.
    LengthOfBpchar,
    /// A function whose second argument is one blank when it is left out.
    Trim(&'static str),
    /// `round`, `trunc`, `ceil` and `floor` of a number.
    Rounded(&'static str),
    /// Days added to a date; true: taken from it.
    DateAdd(bool),
    /// A constant interval added to a date or time.
    IntervalAdd {
        /// It is taken away.
        negate: bool,
    },
    /// The time between two timestamps.
    Between,
    /// `extract`, and `date_part`, which gives a float.
    Extract {
        /// It gives a float.
        float: bool,
        /// Only where TimeZone is UTC.
        in_utc: bool,
    },
    /// `date_trunc`, with or without a zone, which has to be UTC.
    DateTrunc {
        /// Only where TimeZone is UTC.
        in_utc: bool,
    },
    /// `count(*)`.
    CountAll,
    /// `count`.
    Count,
    /// `sum` of exact numbers.
    Sum,
    /// `avg` of exact numbers.
    Average,
    /// `variance` and its like, of exact numbers: `pg_<name>`.
    Spread(&'static str),
    /// `string_agg` with an order.
    Joined,
    /// `pg_<name>` of sorted values: `percentile_cont` and `percentile_disc`.
    Percentile(&'static str),
    /// `min` and `max`.
    Extreme(&'static str),
    /// An aggregate of booleans.
    OfBool(&'static str),
    /// A window function without arguments.
    Rank(&'static str),
    /// The value of a row so many rows away, by default one.
    Offset(&'static str),
}

/// A function of pg_proc: its oid and its name.
pub type Named = (u32, &'static str);

/// How a call of a function is written; None: it is refused.
pub fn rule(function: u32) -> Option<Rule> {
    let has = |functions: &[Named]| functions.iter().any(|(oid, _)| *oid == function);
    RULES.iter().find(|(_, functions)| has(functions)).map(|(rule, _)| *rule)
}

/// All that is allowed.
pub const RULES: &[(Rule, &[Named])] = &[
    (
        Rule::Compare(Comparison::Equal),
        &[
            (60, "booleq"),
            (63, "int2eq"),
            (65, "int4eq"),
            (67, "texteq"),
            (158, "int24eq"),
            (159, "int42eq"),
            (287, "float4eq"),
            (293, "float8eq"),
            (299, "float48eq"),
            (305, "float84eq"),
            (467, "int8eq"),
            (474, "int84eq"),
            (852, "int48eq"),
            (1048, "bpchareq"),
            (1086, "date_eq"),
            (1145, "time_eq"),
            (1152, "timestamptz_eq"),
            (1718, "numeric_eq"),
            (1850, "int28eq"),
            (1856, "int82eq"),
            (1948, "byteaeq"),
            (2052, "timestamp_eq"),
            (2340, "date_eq_timestamp"),
            (2366, "timestamp_eq_date"),
            (2956, "uuid_eq"),
            (1162, "interval_eq"),
        ],
    ),
    (
        Rule::Compare(Comparison::NotEqual),
        &[
            (84, "boolne"),
            (144, "int4ne"),
            (145, "int2ne"),
            (157, "textne"),
            (164, "int24ne"),
            (165, "int42ne"),
            (288, "float4ne"),
            (294, "float8ne"),
            (300, "float48ne"),
            (306, "float84ne"),
            (468, "int8ne"),
            (475, "int84ne"),
            (853, "int48ne"),
            (1053, "bpcharne"),
            (1091, "date_ne"),
            (1106, "time_ne"),
            (1153, "timestamptz_ne"),
            (1719, "numeric_ne"),
            (1851, "int28ne"),
            (1857, "int82ne"),
            (1953, "byteane"),
            (2053, "timestamp_ne"),
            (2343, "date_ne_timestamp"),
            (2369, "timestamp_ne_date"),
            (2959, "uuid_ne"),
            (1163, "interval_ne"),
        ],
    ),
    (
        Rule::Compare(Comparison::Less),
        &[
            (56, "boollt"),
            (64, "int2lt"),
            (66, "int4lt"),
            (160, "int24lt"),
            (161, "int42lt"),
            (289, "float4lt"),
            (295, "float8lt"),
            (301, "float48lt"),
            (307, "float84lt"),
            (469, "int8lt"),
            (476, "int84lt"),
            (740, "text_lt"),
            (854, "int48lt"),
            (1049, "bpcharlt"),
            (1087, "date_lt"),
            (1102, "time_lt"),
            (1154, "timestamptz_lt"),
            (1722, "numeric_lt"),
            (1852, "int28lt"),
            (1858, "int82lt"),
            (1949, "bytealt"),
            (2054, "timestamp_lt"),
            (2338, "date_lt_timestamp"),
            (2364, "timestamp_lt_date"),
            (2954, "uuid_lt"),
            (1164, "interval_lt"),
        ],
    ),
    (
        Rule::Compare(Comparison::LessOrEqual),
        &[
            (148, "int2le"),
            (149, "int4le"),
            (166, "int24le"),
            (167, "int42le"),
            (290, "float4le"),
            (296, "float8le"),
            (302, "float48le"),
            (308, "float84le"),
            (471, "int8le"),
            (478, "int84le"),
            (741, "text_le"),
            (856, "int48le"),
            (1050, "bpcharle"),
            (1088, "date_le"),
            (1103, "time_le"),
            (1155, "timestamptz_le"),
            (1691, "boolle"),
            (1723, "numeric_le"),
            (1854, "int28le"),
            (1860, "int82le"),
            (1950, "byteale"),
            (2055, "timestamp_le"),
            (2339, "date_le_timestamp"),
            (2365, "timestamp_le_date"),
            (2955, "uuid_le"),
            (1165, "interval_le"),
        ],
    ),
    (
        Rule::Compare(Comparison::Greater),
        &[
            (57, "boolgt"),
            (146, "int2gt"),
            (147, "int4gt"),
            (162, "int24gt"),
            (163, "int42gt"),
            (291, "float4gt"),
            (297, "float8gt"),
            (303, "float48gt"),
            (309, "float84gt"),
            (470, "int8gt"),
            (477, "int84gt"),
            (742, "text_gt"),
            (855, "int48gt"),
            (1051, "bpchargt"),
            (1089, "date_gt"),
            (1104, "time_gt"),
            (1157, "timestamptz_gt"),
            (1720, "numeric_gt"),
            (1853, "int28gt"),
            (1859, "int82gt"),
            (1951, "byteagt"),
            (2057, "timestamp_gt"),
            (2341, "date_gt_timestamp"),
            (2367, "timestamp_gt_date"),
            (2958, "uuid_gt"),
            (1167, "interval_gt"),
        ],
    ),
    (
        Rule::Compare(Comparison::GreaterOrEqual),
        &[
            (150, "int4ge"),
            (151, "int2ge"),
            (168, "int24ge"),
            (169, "int42ge"),
            (292, "float4ge"),
            (298, "float8ge"),
            (304, "float48ge"),
            (310, "float84ge"),
            (472, "int8ge"),
            (479, "int84ge"),
            (743, "text_ge"),
            (857, "int48ge"),
            (1052, "bpcharge"),
            (1090, "date_ge"),
            (1105, "time_ge"),
            (1156, "timestamptz_ge"),
            (1692, "boolge"),
            (1721, "numeric_ge"),
            (1855, "int28ge"),
            (1861, "int82ge"),
            (1952, "byteage"),
            (2056, "timestamp_ge"),
            (2342, "date_ge_timestamp"),
            (2368, "timestamp_ge_date"),
            (2957, "uuid_ge"),
            (1166, "interval_ge"),
        ],
    ),
    (
        Rule::Arithmetic("add"),
        &[
            (176, "int2pl"),
            (177, "int4pl"),
            (178, "int24pl"),
            (179, "int42pl"),
            (204, "float4pl"),
            (218, "float8pl"),
            (281, "float48pl"),
            (285, "float84pl"),
            (463, "int8pl"),
            (837, "int82pl"),
            (841, "int28pl"),
            (1274, "int84pl"),
            (1278, "int48pl"),
            (1724, "numeric_add"),
        ],
    ),
    (
        Rule::Arithmetic("sub"),
        &[
            (180, "int2mi"),
            (181, "int4mi"),
            (182, "int24mi"),
            (183, "int42mi"),
            (205, "float4mi"),
            (219, "float8mi"),
            (282, "float48mi"),
            (286, "float84mi"),
            (464, "int8mi"),
            (838, "int82mi"),
            (942, "int28mi"),
            (1275, "int84mi"),
            (1279, "int48mi"),
            (1725, "numeric_sub"),
        ],
    ),
    (
        Rule::Arithmetic("mul"),
        &[
            (141, "int4mul"),
            (152, "int2mul"),
            (170, "int24mul"),
            (171, "int42mul"),
            (202, "float4mul"),
            (216, "float8mul"),
            (279, "float48mul"),
            (283, "float84mul"),
            (465, "int8mul"),
            (839, "int82mul"),
            (943, "int28mul"),
            (1276, "int84mul"),
            (1280, "int48mul"),
            (1726, "numeric_mul"),
        ],
    ),
    (
        Rule::Arithmetic("div"),
        &[
            (153, "int2div"),
            (154, "int4div"),
            (172, "int24div"),
            (173, "int42div"),
            (203, "float4div"),
            (217, "float8div"),
            (280, "float48div"),
            (284, "float84div"),
            (466, "int8div"),
            (840, "int82div"),
            (948, "int28div"),
            (1277, "int84div"),
            (1281, "int48div"),
            (1727, "numeric_div"),
        ],
    ),
    (
        Rule::Arithmetic("mod"),
        &[
            (155, "int2mod"),
            (156, "int4mod"),
            (940, "mod"),
            (941, "mod"),
            (945, "int8mod"),
            (947, "mod"),
            (1728, "mod"),
            (1729, "numeric_mod"),
        ],
    ),
    (
        Rule::Unary("neg"),
        &[
            (206, "float4um"),
            (212, "int4um"),
            (213, "int2um"),
            (220, "float8um"),
            (462, "int8um"),
            (1771, "numeric_uminus"),
        ],
    ),
    (
        Rule::Unary("abs"),
        &[
            (207, "float4abs"),
            (221, "float8abs"),
            (1230, "int8abs"),
            (1251, "int4abs"),
            (1253, "int2abs"),
            (1394, "abs"),
            (1395, "abs"),
            (1396, "abs"),
            (1397, "abs"),
            (1398, "abs"),
            (1704, "numeric_abs"),
            (1705, "abs"),
        ],
    ),
    (
        Rule::Same,
        &[
            (1910, "int8up"),
            (1911, "int2up"),
            (1912, "int4up"),
            (1913, "float4up"),
            (1914, "float8up"),
            (1915, "numeric_uplus"),
        ],
    ),
    (Rule::Like(true), &[(850, "textlike"), (1569, "like"), (1631, "bpcharlike")]),
    (Rule::Like(false), &[(851, "textnlike"), (1570, "notlike"), (1632, "bpcharnlike")]),
    (Rule::LikeInAnyCase(true), &[(1633, "texticlike"), (1660, "bpchariclike")]),
    (Rule::LikeInAnyCase(false), &[(1634, "texticnlike"), (1661, "bpcharicnlike")]),
    (Rule::Case("upper"), &[(871, "upper")]),
    (Rule::Case("lower"), &[(870, "lower")]),
    (
        Rule::Integer,
        &[
            (237, "int2"),
            (238, "int2"),
            (313, "int4"),
            (314, "int2"),
            (317, "int4"),
            (319, "int4"),
            (480, "int4"),
            (481, "int8"),
            (483, "int8"),
            (653, "int8"),
            (714, "int2"),
            (754, "int8"),
            (1744, "int4"),
            (1779, "int8"),
            (1783, "int2"),
        ],
    ),
    (Rule::Float8, &[(235, "float8"), (311, "float8"), (316, "float8"), (482, "float8"), (1746, "float8")]),
    (Rule::ToNumeric, &[(1740, "numeric"), (1781, "numeric"), (1782, "numeric")]),
    (Rule::NumericModifier, &[(1703, "numeric")]),
    (Rule::TextOfBpchar, &[(401, "text")]),
    (Rule::Function("pg_text"), &[(2971, "text")]),
    (Rule::Concatenate, &[(1258, "textcat")]),
    (Rule::Function("pg_length"), &[(1317, "length"), (1369, "character_length"), (1381, "char_length")]),
    (Rule::LengthOfBpchar, &[(1318, "length"), (1367, "character_length"), (1372, "char_length")]),
    (Rule::Function("pg_octet_length"), &[(1374, "octet_length")]),
    (Rule::Function("pg_substring"), &[(877, "substr"), (883, "substr"), (936, "substring"), (937, "substring")]),
    (Rule::Function("pg_left"), &[(3060, "left")]),
    (Rule::Function("pg_right"), &[(3061, "right")]),
    (Rule::Function("pg_position"), &[(849, "position"), (868, "strpos")]),
    (Rule::Trim("pg_btrim"), &[(884, "btrim"), (885, "btrim")]),
    (Rule::Trim("pg_ltrim"), &[(875, "ltrim"), (881, "ltrim")]),
    (Rule::Trim("pg_rtrim"), &[(876, "rtrim"), (882, "rtrim")]),
    (Rule::Function("pg_replace"), &[(2087, "replace")]),
    (Rule::Function("pg_starts_with"), &[(3696, "starts_with")]),
    (Rule::Rounded("round"), &[(1707, "round"), (1708, "round")]),
    (Rule::Rounded("trunc"), &[(1709, "trunc"), (1710, "trunc")]),
    (Rule::Rounded("ceil"), &[(1711, "ceil"), (2167, "ceiling")]),
    (Rule::Rounded("floor"), &[(1712, "floor")]),
    (Rule::Function("pg_timestamp"), &[(2024, "timestamp")]),
    (Rule::Function("pg_date"), &[(2029, "date")]),
    (Rule::FunctionInUtc("pg_date"), &[(1178, "date")]),
    (Rule::FunctionInUtc("pg_timestamp"), &[(2027, "timestamp")]),
    (Rule::FunctionInUtc("pg_timestamptz"), &[(1174, "timestamptz"), (2028, "timestamptz")]),
    (Rule::DateAdd(false), &[(1141, "date_pli"), (2550, "integer_pl_date")]),
    (Rule::DateAdd(true), &[(1142, "date_mii")]),
    (Rule::Function("pg_date_sub"), &[(1140, "date_mi")]),
    (
        Rule::IntervalAdd { negate: false },
        &[
            (2071, "date_pl_interval"),
            (2546, "interval_pl_date"),
            (2032, "timestamp_pl_interval"),
            (2548, "interval_pl_timestamp"),
        ],
    ),
    (Rule::IntervalAdd { negate: true }, &[(2072, "date_mi_interval"), (2033, "timestamp_mi_interval")]),
    (Rule::AtUtc("pg_timestamp"), &[(1159, "timezone")]),
    (Rule::AtUtc("pg_timestamptz"), &[(2069, "timezone")]),
    (Rule::Between, &[(2031, "timestamp_mi"), (1188, "timestamptz_mi")]),
    (Rule::Extract { float: false, in_utc: false }, &[(6199, "extract"), (6202, "extract"), (6204, "extract")]),
    (Rule::Extract { float: false, in_utc: true }, &[(6203, "extract")]),
    (Rule::Extract { float: true, in_utc: false }, &[(1384, "date_part"), (2021, "date_part"), (1172, "date_part")]),
    (Rule::Extract { float: true, in_utc: true }, &[(1171, "date_part")]),
    (Rule::DateTrunc { in_utc: false }, &[(2020, "date_trunc"), (1284, "date_trunc")]),
    (Rule::DateTrunc { in_utc: true }, &[(1217, "date_trunc")]),
    (Rule::CountAll, &[(2803, "count")]),
    (Rule::Count, &[(2147, "count")]),
    (Rule::Sum, &[(2107, "sum"), (2108, "sum"), (2109, "sum"), (2114, "sum")]),
    (Rule::Average, &[(2100, "avg"), (2101, "avg"), (2102, "avg"), (2103, "avg")]),
    (
        Rule::Spread("var_samp"),
        &[
            (2641, "var_samp"),
            (2642, "var_samp"),
            (2643, "var_samp"),
            (2646, "var_samp"),
            (2148, "variance"),
            (2149, "variance"),
            (2150, "variance"),
            (2153, "variance"),
        ],
    ),
    (Rule::Spread("var_pop"), &[(2718, "var_pop"), (2719, "var_pop"), (2720, "var_pop"), (2723, "var_pop")]),
    (
        Rule::Spread("stddev_samp"),
        &[
            (2712, "stddev_samp"),
            (2713, "stddev_samp"),
            (2714, "stddev_samp"),
            (2717, "stddev_samp"),
            (2154, "stddev"),
            (2155, "stddev"),
            (2156, "stddev"),
            (2159, "stddev"),
        ],
    ),
    (
        Rule::Spread("stddev_pop"),
        &[(2724, "stddev_pop"), (2725, "stddev_pop"), (2726, "stddev_pop"), (2729, "stddev_pop")],
    ),
    (Rule::Joined, &[(3538, "string_agg")]),
    (Rule::Percentile("percentile_cont"), &[(3974, "percentile_cont")]),
    (Rule::Percentile("percentile_disc"), &[(3972, "percentile_disc")]),
    (
        Rule::Extreme("max"),
        &[
            (2115, "max"),
            (2116, "max"),
            (2117, "max"),
            (2122, "max"),
            (2123, "max"),
            (2126, "max"),
            (2127, "max"),
            (2129, "max"),
            (2130, "max"),
            (2128, "max"),
        ],
    ),
    (
        Rule::Extreme("min"),
        &[
            (2131, "min"),
            (2132, "min"),
            (2133, "min"),
            (2138, "min"),
            (2139, "min"),
            (2142, "min"),
            (2143, "min"),
            (2145, "min"),
            (2146, "min"),
            (2144, "min"),
        ],
    ),
    (Rule::OfBool("bool_and"), &[(2517, "bool_and"), (2519, "every")]),
    (Rule::OfBool("bool_or"), &[(2518, "bool_or")]),
    (Rule::Rank("row_number"), &[(3100, "row_number")]),
    (Rule::Rank("rank"), &[(3101, "rank")]),
    (Rule::Rank("dense_rank"), &[(3102, "dense_rank")]),
    (Rule::Offset("lag"), &[(3106, "lag"), (3107, "lag")]),
    (Rule::Offset("lead"), &[(3109, "lead"), (3110, "lead")]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_function_has_one_rule() {
        let mut seen = BTreeSet::new();
        for (oid, name) in RULES.iter().flat_map(|(_, functions)| *functions) {
            assert!(seen.insert(oid), "{oid} {name} twice");
        }
        assert_eq!(rule(177), Some(Rule::Arithmetic("add")));
        // random()
        assert_eq!(rule(1598), None);
    }
}
