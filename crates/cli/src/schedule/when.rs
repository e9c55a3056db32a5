//! Times at which jobs are started.

use std::fmt;
use std::str::FromStr;

/// The names of days, in the order of cron, which begins with 0.
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Times that come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    day: Day,
    /// Hour and minute; nothing for any within the first hour, or for each hour.
    time: Option<(u8, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Day {
    EachHour,
    Each,
    /// From Sunday, 0.
    OfWeek(u8),
    /// From 1.
    OfMonth(u8),
}

impl When {
    /// As systemd writes it.
    pub fn calendar(&self) -> String {
        let day = match self.day {
            Day::EachHour => return "hourly".to_owned(),
            Day::Each => "*-*-*".to_owned(),
            Day::OfWeek(day) => format!("{} *-*-*", DAYS[usize::from(day)]),
            Day::OfMonth(day) => format!("*-*-{day:02}"),
        };
        let (hour, minute) = self.time.unwrap_or_default();
        format!("{day} {hour:02}:{minute:02}")
    }

    /// Whether it is only said by the hour, so that it can be spread over the next one.
    pub fn is_spread(&self) -> bool {
        self.time.is_none()
    }

    /// As cron writes it; `minute` is taken where none is said.
    pub fn table(&self, minute: u8) -> String {
        let (hour, minute) = self.time.unwrap_or((0, minute));
        match self.day {
            Day::EachHour => format!("{minute} * * * *"),
            Day::Each => format!("{minute} {hour} * * *"),
            Day::OfWeek(day) => format!("{minute} {hour} * * {day}"),
            Day::OfMonth(day) => format!("{minute} {hour} {day} * *"),
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unclear = || {
            format!(
                "{text:?} is no time: write hourly, daily, weekly, monthly, 02:30, 'mon 02:30', or \
                 a day from 1 to 28 of each month: '15 02:30'"
            )
        };
        let (day, time) = match text {
            "hourly" => (Day::EachHour, None),
            "daily" => (Day::Each, None),
            "weekly" => (Day::OfWeek(1), None),
            "monthly" => (Day::OfMonth(1), None),
            _ => {
                let (day, time) = text.rsplit_once(' ').unwrap_or(("", text));
                let day = match DAYS.iter().position(|name| day.eq_ignore_ascii_case(name)) {
                    Some(day) => Day::OfWeek(day as u8),
                    None if day.is_empty() => Day::Each,
                    None => match day.parse() {
                        // Every month has these days.
                        Ok(day @ 1..=28) => Day::OfMonth(day),
                        _ => return Err(unclear()),
                    },
                };
                let (hour, minute) = time.split_once(':').ok_or_else(unclear)?;
                match (hour.parse(), minute.parse()) {
                    (Ok(hour @ 0..24), Ok(minute @ 0..60)) if minute.to_string().len() <= 2 => {
                        (day, Some((hour, minute)))
                    }
                    _ => return Err(unclear()),
                }
            }
        };
        Ok(Self { day, time })
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.day {
            Day::EachHour => return f.write_str("every hour"),
            Day::Each => f.write_str("every day")?,
            Day::OfWeek(day) => write!(f, "every week on {}", DAYS[usize::from(day)])?,
            Day::OfMonth(day) => write!(f, "every month on day {day}")?,
        }
        match self.time {
            Some((hour, minute)) => write!(f, " at {hour:02}:{minute:02}"),
            None => f.write_str(" in the first hour"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_for_systemd_and_for_cron() {
        for (text, calendar, table) in [
            ("hourly", "hourly", "7 * * * *"),
            ("daily", "*-*-* 00:00", "7 0 * * *"),
            ("weekly", "mon *-*-* 00:00", "7 0 * * 1"),
            ("monthly", "*-*-01 00:00", "7 0 1 * *"),
            ("2:30", "*-*-* 02:30", "30 2 * * *"),
            ("Sun 23:59", "sun *-*-* 23:59", "59 23 * * 0"),
            ("28 12:00", "*-*-28 12:00", "0 12 28 * *"),
        ] {
            let when: When = text.parse().expect(text);
            assert_eq!(
                (when.calendar().as_str(), when.table(7).as_str()),
                (calendar, table)
            );
        }
        for bad in [
            "",
            "noon",
            "24:00",
            "1:60",
            "29 1:00",
            "0 1:00",
            "funday 1:00",
            "1:5:9",
            "-1:0",
        ] {
            assert!(bad.parse::<When>().is_err(), "{bad}");
        }
    }
}
