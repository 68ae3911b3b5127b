//! Values that the scheduler reads from clients' texts: their plain spelling reads as the same, and each has a key.

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

fuzz_target!(|text: &str| {
    for bytes in [2, 4, 8] {
        for plain in [Plain::Integer(bytes), Plain::Integers(bytes)] {
            let Some(value) = plain.read(text) else { continue };
            assert_eq!(plain.read(&spelled(&value)).as_ref(), Some(&value));
            assert_eq!(has_key(Class::Integer, &value), plain == Plain::Integer(bytes));
        }
    }
    if let Some(value) = Plain::Decimal.read(text) {
        assert!(text.len() <= KEY_BYTES_MAX && has_key(Class::Decimal, &value));
    }
    match Plain::Text.read(text) {
        Some(value) => assert!(value == Value::Text(text.into()) && has_key(Class::Text, &value)),
        None => assert!(text.len() > KEY_BYTES_MAX || text.contains('\0')),
    }
});
