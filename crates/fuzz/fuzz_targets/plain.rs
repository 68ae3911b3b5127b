//! Values that the scheduler reads from clients' texts: their plain spelling reads as the same, and
//! each has a key.

#![no_main]

use chainify_sched::text::{Plain, ELEMENTS_MAX};
use chainify_sched::value::{encode, Class, Value};
use chainify_sched::KEY_BYTES_MAX;
use libfuzzer_sys::fuzz_target;

fn has_key(class: Class, value: &Value) -> bool {
    encode(class, value, &mut Vec::new())
}

fn spelled(value: &Value) -> String {
    match value {
        Value::Integer(value) => value.to_string(),
        Value::Array(elements) => {
            assert!(elements.len() <= ELEMENTS_MAX);
            format!("{{{}}}", elements.iter().map(spelled).collect::<Vec<_>>().join(","))
        }
        other => panic!("{other:?} is no integer"),
    }
}

/// The text around the numbers.
fn frame(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit() && *c != '-').collect()
}

fuzz_target!(|text: &str| {
    for bytes in [2, 4, 8] {
        for plain in [Plain::Integer(bytes), Plain::Integers(bytes)] {
            let Some(value) = plain.read(text) else { continue };
            let spelled = spelled(&value);
            assert_eq!(frame(&spelled), frame(text));
            assert_eq!(plain.read(&spelled).as_ref(), Some(&value));
            assert_eq!(has_key(Class::Integer, &value), plain == Plain::Integer(bytes));
        }
    }
    if let Some(value) = Plain::Decimal.read(text) {
        assert!(text.len() <= KEY_BYTES_MAX && has_key(Class::Decimal, &value));
    }
    let value = Plain::Text.read(text);
    assert_eq!(value.is_some(), text.len() <= KEY_BYTES_MAX && !text.contains('\0'));
    if let Some(value) = value {
        assert!(value == Value::Text(text.into()) && has_key(Class::Text, &value));
    }
});
