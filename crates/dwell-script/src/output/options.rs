//! The options that the printer obeys.

use thiserror::Error;

use crate::aggregate::Sorting;
use crate::option_values::{setting, size};

/// The options, with dtrace's values for those that are not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `quiet`: nothing is printed but what actions print.
    pub quiet: bool,
    /// `flowindent`: entries and returns of functions are drawn as a tree.
    pub flow_indent: bool,
    /// `rawbytes`: strings and arrays are dumped.
    pub raw_bytes: bool,
    /// `noresolve`: addresses of processes are shown as module and offset.
    pub no_resolve: bool,
    /// `stackindent`: spaces before each frame.
    pub stack_indent: usize,
    /// `printsize`: the greatest number of bytes that `print` shows.
    pub print_size: u64,
    /// `specsize`: the greatest number of bytes of a speculation.
    pub speculation_size: u64,
    /// `aggsortkey`, `aggsortkeypos`, `aggsortpos`, `aggsortrev`.
    pub sorting: Sorting,
    /// `$target`: the process whose addresses `%A` prints when it is given none; 0 without one.
    pub target: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            quiet: false,
            flow_indent: false,
            raw_bytes: false,
            no_resolve: false,
            stack_indent: 14,
            print_size: PRINT_SIZE,
            speculation_size: 4 << 20,
            sorting: Sorting::default(),
            target: 0,
        }
    }
}

/// `printsize` when it is not set, or set to nothing sensible.
const PRINT_SIZE: u64 = 8192;

/// Why an option was not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OptionError {
    /// None of the printer's options.
    #[error("Invalid option name")]
    Name,
    /// Not a value that it can have.
    #[error("Invalid value for specified option")]
    Value,
}

impl Options {
    /// Sets an option by its name. A name that is not here may be an option of another part.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        match name {
            "quiet" => self.quiet = switch(value)?,
            "flowindent" => self.flow_indent = switch(value)?,
            "rawbytes" => self.raw_bytes = switch(value)?,
            "noresolve" => self.no_resolve = switch(value)?,
            "stackindent" => self.stack_indent = place(value)?.unwrap_or(14).min(LONGEST_INDENT),
            "printsize" => self.print_size = print_size(value)?,
            "specsize" => self.speculation_size = size(value).ok_or(OptionError::Value)?,
            "aggsortkey" => self.sorting.by_key = switch(value)?,
            "aggsortkeypos" => self.sorting.key_position = place(value)?.unwrap_or(0),
            "aggsortpos" => self.sorting.position = place(value)?.unwrap_or(0),
            "aggsortrev" => self.sorting.reverse = switch(value)?,
            _ => return Err(OptionError::Name),
        }
        Ok(())
    }
}

/// Wider than any line.
const LONGEST_INDENT: usize = 1000;

/// A number switches on whatever it is, 0 too, as in dtrace.
fn switch(value: &str) -> Result<bool, OptionError> {
    Ok(setting(value).ok_or(OptionError::Value)?.is_some())
}

/// A number, `None` to unset.
fn place(value: &str) -> Result<Option<usize>, OptionError> {
    let number = setting(value).ok_or(OptionError::Value)?;
    Ok(number.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
}

/// A multiple of 8 up to 64 KiB.
fn print_size(value: &str) -> Result<u64, OptionError> {
    let bytes = size(value).ok_or(OptionError::Value)?;
    let sensible = (1..=65536).contains(&bytes);
    Ok(if sensible { bytes } else { PRINT_SIZE }.next_multiple_of(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_by_name() {
        let mut options = Options::default();
        for (name, value) in [
            ("quiet", "1"),
            ("aggsortrev", "on"),
            ("aggsortkeypos", "2"),
            ("stackindent", "4"),
            ("printsize", "9"),
            ("specsize", "1k"),
        ] {
            assert_eq!(options.set(name, value), Ok(()));
        }
        assert!(options.quiet && options.sorting.reverse);
        assert_eq!(options.sorting.key_position, 2);
        assert_eq!((options.stack_indent, options.print_size), (4, 16));
        assert_eq!(options.speculation_size, 1024);
        assert_eq!(options.set("quiet", "off"), Ok(()));
        assert!(!options.quiet);
        assert_eq!(options.set("quiet", "maybe"), Err(OptionError::Value));
        assert_eq!(options.set("switchrate", "1s"), Err(OptionError::Name));
        assert_eq!(options.set("printsize", "1g"), Ok(()));
        assert_eq!(options.print_size, 8192);
    }
}
