//! What the printer must be told: whose address an address is, and what time it is where the user sits.

use std::fmt::Write;

use super::options::Options;
use crate::schema::{AddressPart, ProbeName};
use dwell_abi::events::{RETURN_BIT, STACK_CUT_SHORT, compiled};
use dwell_abi::unwind::StackEnd;

/// Whose address an address is, as far as that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The module: `vmlinux`, `libc.so.6` (without its directory).
    pub module: Option<Box<str>>,
    /// The address' distance from the start of the module's mapping, in bytes.
    pub module_offset: u64,
    /// The function or object, and the address' distance from its start, in bytes.
    pub symbol: Option<(Box<str>, u64)>,
}

/// A date and time of day where the user sits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalTime {
    /// How far ahead of UTC the clocks are, in seconds.
    pub offset: i32,
    /// The abbreviation of the zone: `CET`.
    pub zone: Box<str>,
}

/// Answers to what numbers stand for.
pub trait Names {
    /// Whose address of the kernel this is.
    fn kernel(&mut self, address: u64) -> Place;
    /// Whose address of a process this is.
    fn user(&mut self, pid: u32, address: u64) -> Place;
    /// The probe with this number.
    fn probe(&mut self, id: u32) -> Option<&ProbeName>;
    /// How the clocks go at this instant, in seconds since 1970 UTC.
    fn local_time(&mut self, seconds: i64) -> LocalTime;
}

impl Place {
    /// The address as a stack shows it: `` module`symbol+0x1f ``, `` module`0x7f00… `` or the address alone.
    pub fn exact(&self, address: u64) -> String {
        match (&self.module, &self.symbol) {
            (Some(module), Some((symbol, 0))) => format!("{module}`{symbol}"),
            (Some(module), Some((symbol, offset))) => format!("{module}`{symbol}+{offset:#x}"),
            (Some(module), None) => format!("{module}`{address:#x}"),
            (None, _) => format!("{address:#x}"),
        }
    }

    /// The part of the address' name that an action wants.
    pub fn part(&self, address: u64, part: AddressPart) -> String {
        match (part, &self.module, &self.symbol) {
            (AddressPart::Exact, ..) => self.exact(address),
            (AddressPart::Module, Some(module), _) => module.to_string(),
            (AddressPart::Module, None, _) => format!("{address:#x}"),
            (_, Some(module), Some((symbol, _))) => format!("{module}`{symbol}"),
            _ => self.exact(address),
        }
    }

    /// With the option `noresolve`: the module and the distance from its start.
    pub fn unresolved(&self, address: u64) -> String {
        match &self.module {
            Some(module) => format!("{module}:{:#x}", self.module_offset),
            None => format!("{address:#x}"),
        }
    }

    /// The address that stands for all that print the same part.
    pub fn representative(&self, address: u64, part: AddressPart) -> u64 {
        let distance = match (part, &self.symbol) {
            (AddressPart::Exact, _) => 0,
            (AddressPart::Module, _) => self.module_offset,
            (_, Some((_, offset))) => *offset,
            (_, None) => 0,
        };
        address.wrapping_sub(distance)
    }
}

/// An address of a process by name.
pub fn user_address(
    names: &mut dyn Names,
    options: &Options,
    (pid, address): (u32, u64),
    part: AddressPart,
) -> String {
    let place = user_place(names, pid, address);
    match options.no_resolve && part != AddressPart::Module {
        true => place.unresolved(address),
        false => place.part(address, part),
    }
}

fn user_place(names: &mut dyn Names, pid: u32, address: u64) -> Place {
    match pid {
        0 => Place::default(),
        pid => names.user(pid, address),
    }
}

/// A word of a user stack: an address, marked if it is a return address, or why the stack is not whole.
pub fn user_frame(names: &mut dyn Names, options: &Options, (pid, word): (u32, u64)) -> String {
    if word >> 32 == u64::from(STACK_CUT_SHORT) {
        let end = StackEnd::from_u8(word as u8).map_or("unknown", StackEnd::name);
        return format!("[stack cut short: {end}]");
    }
    let address = word & !(1 << RETURN_BIT);
    if address == word {
        return user_address(names, options, (pid, address), AddressPart::Exact);
    }
    // The call may be the last instruction of its function: the one after it is another's.
    let mut place = user_place(names, pid, address - 1);
    place.module_offset += 1;
    if let Some((_, offset)) = &mut place.symbol {
        *offset += 1;
    }
    match options.no_resolve {
        true => place.unresolved(compiled(address).0),
        false => place.exact(compiled(address).0),
    }
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const DAY: i64 = 86_400;

/// A date of the Gregorian calendar.
struct Date {
    year: i64,
    /// From 0 to 11.
    month: usize,
    /// From 1 on.
    day: i64,
    /// Days since 1970, which began on a Thursday.
    days: i64,
}

impl Date {
    /// That of a day, counted from 1970. Years begin in March here, so that the leap day is their last.
    fn of(days: i64) -> Date {
        let from_era = days + 719_468; // days from 0000-03-01 to 1970
        let era = from_era.div_euclid(146_097); // 400 years
        let day_of_era = from_era.rem_euclid(146_097);
        let leaps = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
        let year_of_era = (day_of_era - leaps) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153; // from March
        let january = month >= 10;
        Date {
            year: year_of_era + era * 400 + i64::from(january),
            month: ((month + 2) % 12) as usize,
            day: day_of_year - (153 * month + 2) / 5 + 1,
            days,
        }
    }
}

/// The date and the seconds since midnight of nanoseconds since 1970 UTC, and the zone.
fn local(names: &mut dyn Names, nanoseconds: u64) -> (Date, i64, Box<str>) {
    let seconds = (nanoseconds / 1_000_000_000) as i64;
    let time = names.local_time(seconds);
    let seconds = seconds + i64::from(time.offset);
    let date = Date::of(seconds.div_euclid(DAY));
    (date, seconds.rem_euclid(DAY), time.zone)
}

/// The time of day.
fn clock(seconds: i64) -> String {
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

/// `%Y`: nanoseconds since 1970 UTC as `1973 Dec  3 17:20:00`.
pub fn time(names: &mut dyn Names, nanoseconds: u64) -> String {
    let (date, seconds, _) = local(names, nanoseconds);
    let month = MONTHS[date.month];
    format!("{} {month} {:2} {}", date.year, date.day, clock(seconds))
}

/// `%T`: nanoseconds since 1970 UTC as `Mon, 03 Dec 1973 17:20:00 UTC`.
pub fn mail_time(names: &mut dyn Names, nanoseconds: u64) -> String {
    let (date, seconds, zone) = local(names, nanoseconds);
    let day = DAYS[date.days.rem_euclid(7) as usize];
    let month = MONTHS[date.month];
    let mut text = format!("{day}, {:02} {month} {}", date.day, date.year);
    let _ = write!(text, " {} {zone}", clock(seconds)); // a String takes everything
    text
}
