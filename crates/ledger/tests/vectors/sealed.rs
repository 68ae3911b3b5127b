//! `sealed.json`.

use chainify_codec::{SealedColumn, SALT_BYTES};
use serde_json::{json, Value as Json};

use crate::values::value_of;
use crate::{case, hex, text, unhex};

pub(crate) fn cases() -> Vec<Json> {
    let of = |name, table: &str, column: &str, of: &str, salt: u8, value: Json| {
        let salt = hex([salt; SALT_BYTES]);
        sealed_case(json!({ "name": name, "chain_id": "trade-1", "table": table, "column": column, "type": of,
            "salt": salt, "value": value }))
    };
    vec![
        of("a price", "public.trades", "price", "numeric(12,2)", 7, json!({ "numeric": "12.50" })),
        of("the same with another salt", "public.trades", "price", "numeric(12,2)", 8, json!({ "numeric": "12.50" })),
        of("the same in another column", "public.trades", "cost", "numeric(12,2)", 7, json!({ "numeric": "12.50" })),
        of("the same in another table", "public.offers", "price", "numeric(12,2)", 7, json!({ "numeric": "12.50" })),
        of("the same of another type", "public.trades", "price", "numeric", 7, json!({ "numeric": "12.50" })),
        of("an empty text", "public.people", "contact", "text", 0, json!({ "text": "" })),
        of(
            "names that SQL would quote",
            "odd schema.Täble",
            "a \"b\"",
            "character varying(80)",
            255,
            json!({ "text": "Ä" }),
        ),
        of("a whole number", "public.people", "salary", "bigint", 1, json!({ "integer": "-9223372036854775808" })),
        of("a document", "public.people", "file", "jsonb", 1, json!({ "json": "{\"b\": 1.0, \"a\": null}" })),
        of("bytes", "public.people", "photo", "bytea", 1, json!({ "bytea": "00ff" })),
        of("a date", "public.people", "born", "date", 1, json!({ "date": "-9000" })),
    ]
}

fn sealed_case(input: Json) -> Json {
    let column = SealedColumn::new(
        text(&input["chain_id"]),
        text(&input["table"]),
        text(&input["column"]),
        text(&input["type"]),
    );
    let encoded = value_of(&input["value"]);
    let salt = unhex(&input["salt"]).try_into().unwrap();
    let commitment = column.commitment(&salt, &encoded);
    case(input, json!({ "encoded": hex(&encoded), "commitment": hex(commitment) }))
}
