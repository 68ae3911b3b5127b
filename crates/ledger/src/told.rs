//! Another organisation's answers about its tables, as `chainify_node.restore` takes them
//! (spec/sql-api.md). Nothing in it is trusted.

use chainify_codec::{Hash, KeyRanges};
use serde_json::Value;

use crate::fields::{bytes, integer, member, number, text};

/// A table's certified state, and the ranges of keys in which its rows are to be those received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldTable {
    /// `schema.table`
    pub name: String,
    /// Its table state.
    pub state: Hash,
    /// In the rest the database keeps its own rows.
    pub ranges: KeyRanges,
}

/// Reads `[{"name","state":hex,"bits","ranges":[int]}]`. Errors say which table and field is
/// malformed.
pub fn tables(told: &Value) -> Result<Vec<ToldTable>, String> {
    let told = told.as_array().ok_or("tables are no array")?;
    told.iter().enumerate().map(|(i, told)| table(told).map_err(|error| format!("table {i}: {error}"))).collect()
}

fn table(told: &Value) -> Result<ToldTable, String> {
    let state = bytes(told, "state")?;
    let ranges = member(told, "ranges")?.as_array().map(|list| list.iter().map(number).collect());
    let ranges: Vec<u32> = ranges.flatten().ok_or("ranges are no array of numbers")?;
    Ok(ToldTable {
        name: text(told, "name")?.to_owned(),
        state: state.try_into().map_err(|_| "state is no hash")?,
        ranges: KeyRanges::new(integer(told, "bits")?, ranges)
            .ok_or("ranges are not ascending ranges of so many bits")?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told() -> Value {
        json!([{"name": "public.t", "state": "0F".repeat(32), "bits": 3, "ranges": [0, 7]}])
    }

    #[test]
    fn what_is_told_is_read() {
        let ranges = KeyRanges::new(3, vec![0, 7]).expect("are ranges");
        let table = ToldTable { name: "public.t".into(), state: [0x0f; 32], ranges };
        assert_eq!(tables(&told()), Ok(vec![table]));
        assert_eq!(tables(&json!([])), Ok(vec![]));
    }

    #[test]
    fn what_is_malformed_is_named() {
        assert_eq!(tables(&json!({})), Err("tables are no array".into()));
        for (field, value, why) in [
            ("name", json!(null), "name is no text"),
            ("state", json!("0f".repeat(31)), "state is no hash"),
            ("state", json!("0g".repeat(32)), "state is not hexadecimal"),
            ("state", json!("f".repeat(63)), "state is not hexadecimal"),
            ("bits", json!(-1), "bits is no such number"),
            ("bits", json!(2), "ranges are not ascending ranges of so many bits"),
            ("bits", json!(25), "ranges are not ascending ranges of so many bits"),
            ("ranges", json!([7, 7]), "ranges are not ascending ranges of so many bits"),
            ("ranges", json!([-1]), "ranges are no array of numbers"),
            ("ranges", json!("07"), "ranges are no array of numbers"),
        ] {
            let mut told = told();
            told[0][field] = value;
            assert_eq!(tables(&told), Err(format!("table 0: {why}")));
        }
    }
}
