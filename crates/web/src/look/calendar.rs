//! A calendar of days with snapshots: a table a month.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::{Span, ToSpan};
use maud::{Markup, html};

/// Months that are shown at once.
pub const MONTHS: i64 = 6;

/// What a day had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Day {
    /// Snapshots.
    pub snapshots: u32,
    /// Those with problems; in a preview, those that would go.
    pub marked: u32,
}

/// How the days of a calendar are told of.
pub struct Calendar<'a> {
    /// What each day had.
    pub days: &'a BTreeMap<Date, Day>,
    /// A day of the last month that is shown.
    pub until: Date,
    /// The day whose snapshots are listed below.
    pub chosen: Option<Date>,
    /// What is so of marked snapshots: "with problems".
    pub marked: &'a str,
    /// The address that leads to a day.
    pub address: &'a dyn Fn(Date) -> String,
}

impl Calendar<'_> {
    /// Draws it.
    pub fn draw(&self) -> Markup {
        let last = self.until.first_of_month();
        let months = (0..MONTHS)
            .rev()
            .map(|back| last.saturating_sub(back.months()));
        html! {
            div class="months" { @for month in months { (self.month(month)) } }
            ul class="keys soft small" {
                li { i class="some" {} "one snapshot" }
                li { i class="more" {} "several" }
                @if self.days.values().any(|day| day.marked > 0) {
                    li { i class="marked" {} (self.marked) }
                }
            }
        }
    }

    fn month(&self, first: Date) -> Markup {
        let blank = usize::from(first.weekday().to_monday_zero_offset() as u8);
        let days = first.days_in_month();
        let weeks = (blank + days as usize).div_ceil(7);
        let date = |week: usize, weekday: usize| {
            let day = (week * 7 + weekday + 1).checked_sub(blank)?;
            let day = i8::try_from(day)
                .ok()
                .filter(|day| (1..=days).contains(day))?;
            first.with().day(day).build().ok()
        };
        html! {
            table class="month" {
                caption { (first.strftime("%B %Y")) }
                thead class="away" { tr {
                    @for day in ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"] {
                        th scope="col" { (day) }
                    }
                } }
                tbody {
                    @for week in 0..weeks { tr {
                        @for weekday in 0..7 {
                            @match date(week, weekday) {
                                Some(date) => (self.day(date)),
                                None => td {},
                            }
                        }
                    } }
                }
            }
        }
    }

    fn day(&self, date: Date) -> Markup {
        let number = date.day();
        let Some(day) = self.days.get(&date) else {
            return html! { td { span { (number) } } };
        };
        let mut title = format!(
            "{}: {}",
            date.strftime("%A, %-d %B %Y"),
            tabane_text::count(day.snapshots.into(), "snapshot")
        );
        if day.marked > 0 {
            title += &format!(", {} {}", day.marked, self.marked);
        }
        let class = match (day.snapshots, day.marked) {
            (all, marked) if marked == all => "all-marked",
            (_, 1..) => "marked",
            (1, _) => "some",
            _ => "more",
        };
        html! {
            td { a class=(class) href=((self.address)(date)) title=(title)
                aria-label=(title) aria-current=[(self.chosen == Some(date)).then_some("date")] {
                (number)
            } }
        }
    }
}

/// The month behind or before another, for the links beside a calendar.
pub fn shifted(date: Date, months: i64) -> Date {
    date.first_of_month()
        .saturating_add(Span::new().months(months))
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn each_day_is_in_its_column() {
        let days = [(
            date(2026, 3, 4),
            Day {
                snapshots: 2,
                marked: 1,
            },
        )];
        let days = days.into();
        let calendar = Calendar {
            days: &days,
            until: date(2026, 3, 31),
            chosen: None,
            marked: "with problems",
            address: &|date| format!("?day={date}"),
        };
        let drawn = calendar.month(date(2026, 3, 1)).into_string();
        // March 2026 begins on a Sunday, and has six weeks.
        let rows: Vec<&str> = drawn.split("<tr>").skip(2).collect();
        assert_eq!(rows.len(), 6);
        assert!(rows[0].contains("<td></td><td><span>1</span></td></tr>"));
        assert!(
            rows[1].contains("2 snapshots, 1 with problems"),
            "{}",
            rows[1]
        );
        assert_eq!(drawn.matches("<span>").count(), 30);
    }
}
