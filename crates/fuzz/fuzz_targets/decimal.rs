//! Decimal numbers as text: one spelling of a number, and one key of it for the scheduler, which
//! reads them by itself.

#![no_main]

use chainify_codec::{decode_value, value, Value};
use chainify_sched::value::{encode, Class, Value as Key};
use libfuzzer_sys::fuzz_target;

/// Digits that PostgreSQL's numeric holds before the point and after it, sign, point and a zero.
const TEXT_BYTES_MAX: usize = 131_072 + 16_383 + 3;

fn key(text: &str) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    encode(Class::Decimal, &Key::Decimal(text.to_owned()), &mut key).then_some(key)
}

fuzz_target!(|text: &str| {
    let mut encoded = Vec::new();
    if value::numeric(&mut encoded, text).is_err() {
        assert!(encoded.is_empty(), "nothing is written of what is refused");
        assert_eq!(key(text), None);
        return;
    }
    let Ok(Value::Numeric(spelled)) = decode_value(&encoded) else { panic!("what was written is read") };
    assert!(spelled.len() <= TEXT_BYTES_MAX);
    let mut again = Vec::new();
    value::numeric(&mut again, &spelled).expect("the one spelling is a number");
    assert_eq!(again, encoded);
    assert!(key(text).is_none() || key(text) == key(&spelled));
    // Rounded to the same: the nearest double is found without the spelling.
    let [before, after] = [text, &spelled].map(|text| text.parse::<f64>().expect("a number for others too"));
    assert!(before == after || before.is_nan() && after.is_nan());
});
