//! PostgreSQL's calendar: the Gregorian one without a beginning. Days and microseconds count from
//! 1970; the greatest and the smallest number are the infinities.
use crate::error::SqlError;

pub(crate) const DAY: i64 = 86_400_000_000;
/// The first day that PostgreSQL has: 4714-11-24 BC.
const DAY_MIN: i64 = -2_440_588;
/// The first day that a `date` no longer has.
const DAY_END: i64 = 2_145_042_906;
/// The first day that a `timestamp` no longer has: 294277-01-01.
const TIMESTAMP_DAY_END: i64 = 106_762_940;

/// A day of the calendar. The year before 1 is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Day {
    pub year: i64,
    pub month: i64,
    pub day: i64,
}

impl Day {
    /// The day with this number.
    pub fn of(number: i64) -> Day {
        // Years begin in March here, and eras of 400 years on 0000-03-01.
        let shifted = number + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        Day { year: era * 400 + year_of_era + next, month, day }
    }

    /// Its number.
    pub fn number(self) -> i64 {
        let Day { year, month, day } = self;
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * month + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    /// The same day of a later month, or the last one of it.
    pub fn plus_months(self, months: i64) -> Day {
        let month = self.year * 12 + self.month - 1 + months;
        let first = Day { year: month.div_euclid(12), month: month.rem_euclid(12) + 1, day: 1 };
        Day { day: self.day.min(first.days_of_month()), ..first }
    }

    fn days_of_month(self) -> i64 {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        match self.month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

/// Day of the week: Monday is 0.
pub(crate) fn weekday(day: i64) -> i64 {
    (day + 3).rem_euclid(7)
}

/// Year and week of ISO 8601.
fn iso_week(day: i64) -> (i64, i64) {
    let thursday = day - weekday(day) + 3;
    let year = Day::of(thursday).year;
    let first = Day { year, month: 1, day: 1 }.number();
    (year, (thursday - first) / 7 + 1)
}

/// There is no year 0.
fn shown(year: i64) -> i64 {
    if year > 0 {
        year
    } else {
        year - 1
    }
}

/// The number of the century or millennium of a year.
fn period(year: i64, years: i64) -> i64 {
    match year > 0 {
        true => (year + years - 1) / years,
        false => -((years - 1 - (year - 1)) / years),
    }
}

fn decade(year: i64) -> i64 {
    year.div_euclid(10)
}

/// A field of `extract` that is a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Millennium,
    Century,
    Decade,
    Year,
    IsoYear,
    Quarter,
    Month,
    Week,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Hour,
    Minute,
}

impl Field {
    pub fn of(name: &str) -> Option<Field> {
        Some(match name {
            "millennium" => Field::Millennium,
            "century" => Field::Century,
            "decade" => Field::Decade,
            "year" => Field::Year,
            "isoyear" => Field::IsoYear,
            "quarter" => Field::Quarter,
            "month" => Field::Month,
            "week" => Field::Week,
            "day" => Field::Day,
            "dow" => Field::DayOfWeek,
            "isodow" => Field::IsoDayOfWeek,
            "doy" => Field::DayOfYear,
            "hour" => Field::Hour,
            "minute" => Field::Minute,
            _ => return None,
        })
    }

    /// Whether it grows with time for ever; an infinite time has an infinite one then, else NULL.
    pub fn is_monotonic(self) -> bool {
        use Field::*;
        matches!(self, Millennium | Century | Decade | Year | IsoYear)
    }

    /// The field of a day, and the microseconds since midnight.
    pub fn extract(self, number: i64, time: i64) -> i64 {
        let day = Day::of(number);
        match self {
            Field::Millennium => period(day.year, 1000),
            Field::Century => period(day.year, 100),
            Field::Decade => decade(day.year),
            Field::Year => shown(day.year),
            Field::IsoYear => shown(iso_week(number).0),
            Field::Quarter => (day.month - 1) / 3 + 1,
            Field::Month => day.month,
            Field::Week => iso_week(number).1,
            Field::Day => day.day,
            Field::DayOfWeek => (weekday(number) + 1) % 7,
            Field::IsoDayOfWeek => weekday(number) + 1,
            Field::DayOfYear => number - Day { month: 1, day: 1, ..day }.number() + 1,
            Field::Hour => time / 3_600_000_000,
            Field::Minute => time / 60_000_000 % 60,
        }
    }
}

/// A field of `date_trunc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A part of a day, in microseconds.
    Time(i64),
    Week,
    Months(i64),
    Decade,
    /// A century or millennium.
    Years(i64),
}

impl Unit {
    pub fn of(name: &str) -> Option<Unit> {
        Some(match name {
            "microseconds" => Unit::Time(1),
            "milliseconds" => Unit::Time(1_000),
            "second" => Unit::Time(1_000_000),
            "minute" => Unit::Time(60_000_000),
            "hour" => Unit::Time(3_600_000_000),
            "day" => Unit::Time(DAY),
            "week" => Unit::Week,
            "month" => Unit::Months(1),
            "quarter" => Unit::Months(3),
            "year" => Unit::Months(12),
            "decade" => Unit::Decade,
            "century" => Unit::Years(100),
            "millennium" => Unit::Years(1000),
            _ => return None,
        })
    }

    /// `date_trunc`; infinities stay.
    pub fn truncate(self, timestamp: i64) -> Result<i64, SqlError> {
        if is_infinite(timestamp) {
            return Ok(timestamp);
        }
        if let Unit::Time(unit) = self {
            return timestamp_of(0, timestamp - timestamp.rem_euclid(unit));
        }
        let number = timestamp.div_euclid(DAY);
        let day = Day::of(number);
        let year = |year| Day { year, month: 1, day: 1 };
        let start = match self {
            Unit::Week => number - weekday(number),
            Unit::Months(n) => {
                let month = (day.month - 1) / n * n + 1;
                Day { month, day: 1, ..day }.number()
            }
            Unit::Decade => year(decade(day.year) * 10).number(),
            Unit::Years(n) if day.year > 0 => year(period(day.year, n) * n - n + 1).number(),
            Unit::Years(n) => year(period(day.year, n) * n + 1).number(),
            Unit::Time(_) => number,
        };
        timestamp_of(start, 0)
    }
}

pub(crate) fn is_infinite(timestamp: i64) -> bool {
    timestamp == i64::MAX || timestamp == i64::MIN
}

pub(crate) fn is_infinite_day(day: i32) -> bool {
    day == i32::MAX || day == i32::MIN
}

/// A time behind the beginning of a day: 22008 where PostgreSQL has no such timestamp, 0A000 where
/// only the worker has none.
fn timestamp_of(day: i64, time: i64) -> Result<i64, SqlError> {
    let (day, time) = (day + time.div_euclid(DAY), time.rem_euclid(DAY));
    if !(DAY_MIN..TIMESTAMP_DAY_END).contains(&day) {
        return Err(SqlError::datetime("timestamp out of range"));
    }
    let timestamp = day.checked_mul(DAY).and_then(|start| start.checked_add(time));
    let timestamp = timestamp.filter(|of| !is_infinite(*of));
    timestamp.ok_or_else(|| SqlError::unsupported("a timestamp after the year 294246"))
}

/// The timestamp of a day's beginning.
pub(crate) fn day_to_timestamp(day: i32) -> Result<i64, SqlError> {
    match day {
        i32::MAX => Ok(i64::MAX),
        i32::MIN => Ok(i64::MIN),
        _ if i64::from(day) >= TIMESTAMP_DAY_END => {
            Err(SqlError::datetime("date out of range for timestamp"))
        }
        _ => timestamp_of(day.into(), 0),
    }
}

/// The same for comparisons: days that begin after the last timestamp of the ledger are behind all of
/// them but infinity.
pub(crate) fn midnight(day: i32) -> i64 {
    day_to_timestamp(day).unwrap_or(i64::MAX - 1)
}

/// The day of a timestamp.
pub(crate) fn timestamp_to_day(timestamp: i64) -> i32 {
    match timestamp {
        i64::MAX => i32::MAX,
        i64::MIN => i32::MIN,
        // Microseconds of 64 bits are fewer days than 32 bits count.
        _ => timestamp.div_euclid(DAY) as i32,
    }
}

/// `date + days`; infinities stay.
pub(crate) fn plus_days(day: i32, days: i32) -> Result<i32, SqlError> {
    if is_infinite_day(day) {
        return Ok(day);
    }
    let sum = i64::from(day) + i64::from(days);
    let sum = i32::try_from(sum).ok().filter(|day| (DAY_MIN..DAY_END).contains(&i64::from(*day)));
    sum.ok_or_else(|| SqlError::datetime("date out of range"))
}

/// `date - date`.
pub(crate) fn days_between(left: i32, right: i32) -> Result<i32, SqlError> {
    match is_infinite_day(left) || is_infinite_day(right) {
        true => Err(SqlError::datetime("cannot subtract infinite dates")),
        false => Ok(left.wrapping_sub(right)),
    }
}

/// `timestamp - timestamp` in microseconds. 0A000 for infinite ones, which later versions of PostgreSQL
/// subtract and earlier ones do not.
pub(crate) fn time_between(left: i64, right: i64) -> Result<i64, SqlError> {
    let between = left.checked_sub(right).filter(|_| !is_infinite(left) && !is_infinite(right));
    between.ok_or_else(|| SqlError::unsupported("a time between infinite or distant timestamps"))
}

/// `timestamp + interval`: months first, then days, then the time. Infinities stay.
pub(crate) fn plus_interval(
    timestamp: i64,
    months: i64,
    days: i64,
    time: i64,
) -> Result<i64, SqlError> {
    if is_infinite(timestamp) {
        return Ok(timestamp);
    }
    let (mut day, of_day) = (timestamp.div_euclid(DAY), timestamp.rem_euclid(DAY));
    let between = |day: i64| match (DAY_MIN..TIMESTAMP_DAY_END).contains(&day) {
        true => Ok(day),
        false => Err(SqlError::datetime("timestamp out of range")),
    };
    if months != 0 {
        day = between(Day::of(day).plus_months(months).number())?;
    }
    day = between(day + days)?;
    let day = day + time.div_euclid(DAY);
    timestamp_of(day, of_day + time.rem_euclid(DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_back() {
        for number in (DAY_MIN..DAY_END).step_by(12_345).chain(-800_000..-700_000) {
            assert_eq!(Day::of(number).number(), number);
        }
        assert_eq!(Day::of(0), Day { year: 1970, month: 1, day: 1 });
        assert_eq!(Day::of(DAY_MIN), Day { year: -4713, month: 11, day: 24 });
        let end = Day::of(TIMESTAMP_DAY_END);
        assert_eq!(end, Day { year: 294_277, month: 1, day: 1 });
    }
}
