//! dtrace's options, from `#pragma D option`, `-x` and `setopt()`.

use std::collections::BTreeMap;

/// What the value of an option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing, or a truth value.
    Flag,
    /// Bytes, with `k`, `m`, `g` or `t`.
    Size,
    /// Nanoseconds, given with a unit, or as a frequency.
    Rate,
    /// A whole number; 1 without a value.
    Number,
    /// Any text.
    Text,
}

/// The options by name. Those that only steer parts of dtrace that do not exist here are accepted all the same.
const OPTIONS: &[(&str, Kind)] = &[
    ("aggpercpu", Kind::Flag),
    ("aggrate", Kind::Rate),
    ("aggsize", Kind::Size),
    ("aggsortkey", Kind::Flag),
    ("aggsortkeypos", Kind::Number),
    ("aggsortpos", Kind::Number),
    ("aggsortrev", Kind::Flag),
    ("amin", Kind::Text),
    ("argref", Kind::Flag),
    ("bufpolicy", Kind::Text),
    ("bufresize", Kind::Text),
    ("bufsize", Kind::Size),
    ("cleanrate", Kind::Rate),
    ("cpp", Kind::Flag),
    ("cpphdrs", Kind::Flag),
    ("cpppath", Kind::Text),
    ("cpu", Kind::Number),
    ("ctypes", Kind::Text),
    ("debug", Kind::Flag),
    ("defaultargs", Kind::Flag),
    ("define", Kind::Text),
    ("destructive", Kind::Flag),
    ("disasm", Kind::Text),
    ("droptags", Kind::Flag),
    ("dtypes", Kind::Text),
    ("dynvarsize", Kind::Size),
    ("empty", Kind::Flag),
    ("engine", Kind::Text),
    ("errtags", Kind::Flag),
    ("evaltime", Kind::Text),
    ("flowindent", Kind::Flag),
    ("grabanon", Kind::Flag),
    ("incdir", Kind::Text),
    ("iregs", Kind::Number),
    ("jstackframes", Kind::Number),
    ("jstackstrsize", Kind::Size),
    ("kdefs", Kind::Flag),
    ("knodefs", Kind::Flag),
    ("late", Kind::Text),
    ("lazyload", Kind::Flag),
    ("ldpath", Kind::Text),
    ("libdir", Kind::Text),
    ("linkmode", Kind::Text),
    ("linktype", Kind::Text),
    ("lockmem", Kind::Text),
    ("maxframes", Kind::Number),
    ("modpath", Kind::Text),
    ("nolibs", Kind::Flag),
    ("noresolve", Kind::Flag),
    ("nspec", Kind::Number),
    ("pgmax", Kind::Number),
    ("preallocate", Kind::Size),
    ("printsize", Kind::Size),
    ("pspec", Kind::Flag),
    ("quiet", Kind::Flag),
    ("quietresize", Kind::Flag),
    ("rawbytes", Kind::Flag),
    ("scratchsize", Kind::Size),
    ("specsize", Kind::Size),
    ("stackframes", Kind::Number),
    ("stackindent", Kind::Number),
    ("statusrate", Kind::Rate),
    ("stdc", Kind::Text),
    ("strip", Kind::Flag),
    ("strsize", Kind::Size),
    ("switchrate", Kind::Rate),
    ("syslibdir", Kind::Text),
    ("tree", Kind::Text),
    ("tregs", Kind::Number),
    ("udefs", Kind::Flag),
    ("undef", Kind::Text),
    ("unodefs", Kind::Flag),
    ("ustackframes", Kind::Number),
    ("verbose", Kind::Flag),
    ("version", Kind::Text),
    ("zdefs", Kind::Flag),
];

/// Those that cannot be set by the script itself: it has been read by then.
const OUTSIDE: &[&str] = &[
    "cpphdrs", "cpppath", "define", "incdir", "ldpath", "lockmem", "modpath", "stdc", "undef",
];

/// Why an option was refused, in dtrace's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such option.
    #[error("Invalid option name")]
    Name,
    /// The value is not of the option's kind.
    #[error("Invalid value for specified option")]
    Value,
    /// It is not the script's to set.
    #[error("Option cannot be used from within a D program")]
    Context,
}

/// The options that were set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    numbers: BTreeMap<&'static str, i64>,
    texts: BTreeMap<&'static str, Box<str>>,
}

impl Options {
    /// Sets an option; without a value flags become true and numbers 1.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        let at = OPTIONS.binary_search_by(|(known, _)| (*known).cmp(name));
        let (name, kind) = OPTIONS[at.map_err(|_| OptionError::Name)?];
        if kind == Kind::Text {
            self.texts.insert(name, value.unwrap_or_default().into());
            return Ok(());
        }
        let number = match (kind, value) {
            (Kind::Flag | Kind::Number, None) => Some(1),
            (_, None) => None,
            (Kind::Flag, Some(value)) => truth(value),
            (Kind::Size, Some(value)) => size(value),
            (Kind::Rate, Some(value)) => rate(value),
            (_, Some(value)) => value.parse().ok().filter(|number| *number >= 0),
        };
        self.numbers.insert(name, number.ok_or(OptionError::Value)?);
        Ok(())
    }

    /// Likewise, by a pragma of the script.
    pub(crate) fn set_within(
        &mut self,
        name: &str,
        value: Option<&str>,
    ) -> Result<(), OptionError> {
        match OUTSIDE.contains(&name) {
            true => Err(OptionError::Context),
            false => self.set(name, value),
        }
    }

    /// Whether an option of this name can only be on or off.
    pub fn is_flag(name: &str) -> bool {
        OPTIONS.contains(&(name, Kind::Flag))
    }

    /// Whether a flag is set.
    pub fn flag(&self, name: &str) -> bool {
        self.number(name).is_some_and(|value| value != 0)
    }

    /// A size in bytes, a rate's period in nanoseconds, or a number, if it was set.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.numbers.get(name).copied()
    }

    /// A text, if it was set.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(AsRef::as_ref)
    }

    /// The names of all options.
    pub fn names() -> impl Iterator<Item = &'static str> {
        OPTIONS.iter().map(|(name, _)| *name)
    }
}

fn truth(value: &str) -> Option<i64> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "enable" | "enabled" | "true" | "on" | "set" => Some(1),
        "no" | "disable" | "disabled" | "false" | "off" | "unset" => Some(0),
        number => number.parse().ok(),
    }
}

fn size(value: &str) -> Option<i64> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match value[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        _ => return None,
    };
    digits
        .parse::<i64>()
        .ok()?
        .checked_mul(1 << shift)
        .filter(|size| *size >= 0)
}

/// A period in nanoseconds; a bare number is a frequency in hertz.
fn rate(value: &str) -> Option<i64> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: i64 = digits.parse().ok().filter(|number| *number >= 0)?;
    let unit = match value[digits.len()..].to_ascii_lowercase().as_str() {
        "ns" | "nsec" => 1,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" | "hour" => 3_600_000_000_000,
        "d" | "day" => 86_400_000_000_000,
        "" | "hz" => return 1_000_000_000_i64.checked_div(number),
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted() {
        assert!(OPTIONS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn values_are_read_by_kind() {
        let mut options = Options::default();
        for (name, value, number) in [
            ("quiet", None, 1),
            ("bufsize", Some("4m"), 4 << 20),
            ("switchrate", Some("10hz"), 100_000_000),
            ("aggrate", Some("2sec"), 2_000_000_000),
            ("flowindent", Some("no"), 0),
            ("nspec", Some("4"), 4),
        ] {
            assert_eq!(options.set(name, value), Ok(()), "{name}");
            assert_eq!(options.number(name), Some(number), "{name}");
        }
        for (name, value) in [
            ("bufsize", "4q"),
            ("switchrate", "0"),
            ("nspec", "x"),
            ("strsize", "é"),
        ] {
            assert_eq!(
                options.set(name, Some(value)),
                Err(OptionError::Value),
                "{name}"
            );
        }
        assert_eq!(options.set("quite", None), Err(OptionError::Name));
    }
}
