//! One defect that verification names.
use pgrx::JsonB;
use serde_json::Value;

/// One defect of a table.
#[derive(Debug)]
pub struct Finding {
    pub what: &'static str,
    pub key: Option<JsonB>,
    pub expected: Option<JsonB>,
    pub found: Option<JsonB>,
}

impl PartialEq for Finding {
    fn eq(&self, other: &Self) -> bool {
        let json = |json: &Option<JsonB>| json.as_ref().map(|json| json.0.clone());
        let parts = |f: &Self| (f.what, json(&f.key), json(&f.expected), json(&f.found));
        parts(self) == parts(other)
    }
}

impl Finding {
    /// Of the table as a whole.
    pub fn of_table(what: &'static str, expected: Value, found: Value) -> Self {
        Finding {
            what,
            key: None,
            expected: Some(JsonB(expected)),
            found: Some(JsonB(found)),
        }
    }
}
