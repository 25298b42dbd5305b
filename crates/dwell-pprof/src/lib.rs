//! The messages of pprof's `profile.proto`, field by field as it numbers them.
#![forbid(unsafe_code)]
use prost::Message;

/// `perftools.profiles.Profile`.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    /// What each value of a sample means.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// The samples.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// Files that locations are in; the first is the main program.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// Places in code.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// Every string; the first is empty.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// Start of the window, ns since 1970.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// Length of the window, ns.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// What the period counts.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// Mean distance between two stacks.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// Free text, as string numbers.
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    /// The sample type shown unless asked otherwise, as a string number.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// A quantity and its unit, as string numbers.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ValueType {
    /// `wall`.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// `nanoseconds`.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// A stack with its values.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// Innermost first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// In step with `sample_type`.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// What tells samples of the same stack apart.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A label: a string or a number.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Label {
    /// String number of its name.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// String number of its value.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// Its value when it is a number.
    #[prost(int64, tag = "3")]
    pub num: i64,
}

/// A file that code is in.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Mapping {
    /// From 1.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// First address.
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    /// First address past the end.
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    /// Offset in the file of the first address.
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    /// String number of its path.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// String number of its build id.
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    /// True when functions are named.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// True when files are named.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// True when lines are known.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// True when inlined functions are known.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// A place in code.
#[derive(Clone, PartialEq, Message)]
pub struct Location {
    /// From 1.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Which file; 0 for none.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// Address, as the file states it.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// Functions, the innermost inlined one first.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

/// A function at a line.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Line {
    /// Which function.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// Line in its file; 0 when unknown.
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Function {
    /// From 1.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// String number of its name.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// String number of its name as linked; the same here.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// String number of its file; 0 when unknown.
    #[prost(int64, tag = "4")]
    pub filename: i64,
}
