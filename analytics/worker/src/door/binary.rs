//! Values of answers in the binary form of their types, from their texts. Pure.
//!
//! The forms are those of PostgreSQL's send functions.

use bytes::{BufMut, BytesMut};

use crate::engine::Failure;

/// Days from 1970-01-01 to 2000-01-01, from which PostgreSQL counts.
const DAYS_TO_2000: i64 = 10_957;
const DAY_MICROS: i64 = 86_400_000_000;
/// Digits of one place of a numeric.
const PLACE: usize = 4;

/// Whether values of the type have a binary form here.
pub fn is_known(of: u32) -> bool {
    matches!(
        of,
        16 | 17 | 19 | 20 | 21 | 23 | 25 | 26 | 700 | 701 | 1042 | 1043 | 1082 | 1083 | 1114 | 1184 | 1700 | 2950
    )
}

/// Appends a value with its length in front.
///
/// # Errors
/// XX000 for a text that is none of the type, 0A000 for a type that is not known.
pub fn put(body: &mut BytesMut, of: u32, text: &str) -> Result<(), Failure> {
    let at = body.len();
    body.put_i32(0);
    let Some(()) = put_value(body, of, text) else {
        body.truncate(at);
        return Err(match is_known(of) {
            true => Failure::new("XX000", format!("the analytics worker gave no value of the type {of}")),
            false => not_available(of),
        });
    };
    let length = (body.len() - at - 4) as u32; // a row beyond its bound is taken back
    body[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// The refusal of a binary form.
pub fn not_available(of: u32) -> Failure {
    Failure::new("0A000", format!("not available in analytics: the type {of} in binary"))
        .hint("Let the driver ask for texts: binaryTransfer=false, or the simple protocol.")
}

fn put_value(body: &mut BytesMut, of: u32, text: &str) -> Option<()> {
    match of {
        16 => body.put_u8(match text {
            "t" => 1,
            "f" => 0,
            _ => return None,
        }),
        17 => hex(body, text.strip_prefix("\\x")?)?,
        19 | 25 | 1042 | 1043 => body.extend_from_slice(text.as_bytes()),
        20 => body.put_i64(text.parse().ok()?),
        21 => body.put_i16(text.parse().ok()?),
        23 => body.put_i32(text.parse().ok()?),
        26 => body.put_u32(text.parse().ok()?),
        700 => body.put_f32(text.parse().ok()?),
        701 => body.put_f64(text.parse().ok()?),
        1082 => body.put_i32(day(text)?),
        1083 => body.put_i64(micros(text)?),
        1114 => body.put_i64(moment(text)?),
        1184 => body.put_i64(match text.strip_suffix(" BC") {
            _ if text.ends_with("infinity") => moment(text)?,
            None => moment(text.strip_suffix("+00")?)?,
            Some(text) => moment(&format!("{} BC", text.strip_suffix("+00")?))?,
        }),
        1700 => numeric(body, text)?,
        2950 => hex(body, &text.replace('-', ""))?,
        _ => return None,
    }
    Some(())
}

fn hex(body: &mut BytesMut, digits: &str) -> Option<()> {
    for pair in digits.as_bytes().chunks(2) {
        body.put_u8(u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?);
    }
    (digits.len() % 2 == 0).then_some(())
}

/// Days since 2000-01-01.
fn day(text: &str) -> Option<i32> {
    match text {
        "infinity" => return Some(i32::MAX),
        "-infinity" => return Some(i32::MIN),
        _ => (),
    }
    let (date, before_christ) = text.strip_suffix(" BC").map_or((text, false), |date| (date, true));
    let mut parts = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let year = if before_christ { 1 - year } else { year };
    // The year begins in March, and so ends with the day that some years have more.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    i32::try_from(era * 146_097 + of_era - 719_468 - DAYS_TO_2000).ok()
}

/// Microseconds of a time of the day.
fn micros(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.splitn(3, ':').map(str::parse::<i64>);
    let (hours, minutes, seconds) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let fraction = match fraction.len() {
        0 => 0,
        digits @ 1..=6 => fraction.parse::<i64>().ok()? * 10_i64.pow(6 - digits as u32),
        _ => return None,
    };
    Some((hours * 3_600 + minutes * 60 + seconds) * 1_000_000 + fraction)
}

/// Microseconds since 2000-01-01.
fn moment(text: &str) -> Option<i64> {
    match text {
        "infinity" => return Some(i64::MAX),
        "-infinity" => return Some(i64::MIN),
        _ => (),
    }
    let (moment, era) = text.strip_suffix(" BC").map_or((text, ""), |moment| (moment, " BC"));
    let (date, time) = moment.split_once(' ')?;
    i64::from(day(&format!("{date}{era}"))?).checked_mul(DAY_MICROS)?.checked_add(micros(time)?)
}

/// Places of four digits each, with the weight of the first.
fn numeric(body: &mut BytesMut, text: &str) -> Option<()> {
    const SIGNS: [(&str, u16); 3] = [("NaN", 0xC000), ("Infinity", 0xD000), ("-Infinity", 0xF000)];
    if let Some((_, sign)) = SIGNS.iter().find(|(name, _)| *name == text) {
        [0, 0, *sign, 0].into_iter().for_each(|part| body.put_u16(part));
        return Some(());
    }
    let (sign, digits) = text.strip_prefix('-').map_or((0, text), |digits| (0x4000, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let in_front = (PLACE - whole.len() % PLACE) % PLACE;
    let behind = (PLACE - fraction.len() % PLACE) % PLACE;
    let all = [&"000"[..in_front], whole, fraction, &"000"[..behind]].concat();
    let places: Option<Vec<u16>> =
        all.as_bytes().chunks(PLACE).map(|place| std::str::from_utf8(place).ok()?.parse().ok()).collect();
    let places = places?;
    let first = places.iter().position(|place| *place != 0).unwrap_or(places.len());
    let last = places.iter().rposition(|place| *place != 0).map_or(first, |last| last + 1);
    let weight = ((whole.len() + in_front) / PLACE) as i64 - 1 - first as i64;
    let zero = first == last;
    body.put_u16(u16::try_from(last - first).ok()?);
    body.put_i16(if zero { 0 } else { i16::try_from(weight).ok()? });
    body.put_u16(if zero { 0 } else { sign });
    body.put_u16(u16::try_from(fraction.len()).ok()?);
    places[first..last].iter().for_each(|place| body.put_u16(*place));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(of: u32, text: &str) -> Vec<u8> {
        let mut body = BytesMut::new();
        put(&mut body, of, text).unwrap();
        assert_eq!(body[..4], (body.len() as u32 - 4).to_be_bytes());
        body[4..].to_vec()
    }

    // As PostgreSQL 15 sends them.
    #[test]
    fn values() {
        assert_eq!(of(16, "t"), [1]);
        assert_eq!(of(17, "\\x00ff"), [0, 255]);
        assert_eq!(of(20, "-2"), (-2_i64).to_be_bytes());
        assert_eq!(of(701, "-Infinity"), f64::NEG_INFINITY.to_be_bytes());
        assert_eq!(of(1082, "2000-01-01"), [0, 0, 0, 0]);
        assert_eq!(of(1082, "4714-11-24 BC"), (-2_451_545_i32 + 0).to_be_bytes());
        assert_eq!(of(1082, "2026-02-28"), 9_555_i32.to_be_bytes());
        assert_eq!(of(1083, "24:00:00"), DAY_MICROS.to_be_bytes());
        assert_eq!(of(1114, "1999-12-31 23:59:59.5"), (-500_000_i64).to_be_bytes());
        assert_eq!(of(1184, "2000-01-01 00:00:01+00"), 1_000_000_i64.to_be_bytes());
        assert_eq!(of(1184, "infinity"), i64::MAX.to_be_bytes());
        assert_eq!(of(1700, "0.00"), [0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(of(1700, "-12345.678"), [0, 3, 0, 1, 0x40, 0, 0, 3, 0, 1, 0x09, 0x29, 0x1A, 0x7C]);
        assert_eq!(of(1700, "0.00001"), [0, 1, 0xFF, 0xFE, 0, 0, 0, 5, 0x03, 0xE8]);
        assert_eq!(of(1700, "NaN"), [0, 0, 0, 0, 0xC0, 0, 0, 0]);
        assert_eq!(of(2950, "00010203-0405-0607-0809-0a0b0c0d0e0f"), (0..16).collect::<Vec<u8>>());
    }

    #[test]
    fn texts_of_other_types_are_refused() {
        let mut body = BytesMut::new();
        for (of, text, state) in
            [(23, "x", "XX000"), (1700, "1e3", "XX000"), (2950, "0", "XX000"), (114, "{}", "0A000")]
        {
            assert_eq!(put(&mut body, of, text).unwrap_err().sqlstate, state, "{text}");
        }
        assert!(body.is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_encoded_or_refused(of in prop::sample::select(vec![16, 17, 20, 700, 1082, 1083, 1114, 1184, 1700, 2950]), text in "[-0-9.:+ BCaft\\\\x]{0,30}") {
            let _ = put(&mut BytesMut::new(), of, &text);
        }
    }
}
