//! The messages of OpenTelemetry's profiles signal (`opentelemetry/proto/profiles/v1development`) and the common ones
//! that it uses, field by field as they number them; what is not written is left out.
use prost::Message;

/// What a collector's profiles service is asked to take, and, without the service, what lies in a file.
#[derive(Clone, PartialEq, Message)]
pub struct ProfilesData {
    /// Profiles by what they are of.
    #[prost(message, repeated, tag = "1")]
    pub resource_profiles: Vec<ResourceProfiles>,
    /// Tables that all profiles refer to.
    #[prost(message, optional, tag = "2")]
    pub dictionary: Option<ProfilesDictionary>,
}

/// Tables; the first row of each stands for none.
#[derive(Clone, PartialEq, Message)]
pub struct ProfilesDictionary {
    /// Files that locations are in.
    #[prost(message, repeated, tag = "1")]
    pub mapping_table: Vec<Mapping>,
    /// Places in code.
    #[prost(message, repeated, tag = "2")]
    pub location_table: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "3")]
    pub function_table: Vec<Function>,
    /// Spans; only the one that stands for none.
    #[prost(message, repeated, tag = "4")]
    pub link_table: Vec<Link>,
    /// Every string; the first is empty.
    #[prost(string, repeated, tag = "5")]
    pub string_table: Vec<String>,
    /// What tells samples and mappings apart.
    #[prost(message, repeated, tag = "6")]
    pub attribute_table: Vec<KeyValueAndUnit>,
    /// Stacks.
    #[prost(message, repeated, tag = "7")]
    pub stack_table: Vec<Stack>,
}

/// Profiles of a process.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceProfiles {
    /// The process.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// By who took them.
    #[prost(message, repeated, tag = "2")]
    pub scope_profiles: Vec<ScopeProfiles>,
}

/// What profiles are of.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// By semantic conventions.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// Profiles by one tool.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeProfiles {
    /// The tool.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<InstrumentationScope>,
    /// Its profiles.
    #[prost(message, repeated, tag = "2")]
    pub profiles: Vec<Profile>,
}

/// A tool.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct InstrumentationScope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// Samples of one quantity.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    /// What the values mean.
    #[prost(message, optional, tag = "1")]
    pub sample_type: Option<ValueType>,
    /// The samples.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
    /// Start of the window, ns since 1970.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// Length of the window, ns.
    #[prost(uint64, tag = "4")]
    pub duration_nano: u64,
    /// What the period counts.
    #[prost(message, optional, tag = "5")]
    pub period_type: Option<ValueType>,
    /// Mean distance between two stacks.
    #[prost(int64, tag = "6")]
    pub period: i64,
    /// 16 bytes, not all of them 0.
    #[prost(bytes = "vec", tag = "7")]
    pub profile_id: Vec<u8>,
}

/// A quantity and its unit, as string numbers.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ValueType {
    /// `wall`.
    #[prost(int32, tag = "1")]
    pub type_strindex: i32,
    /// `nanoseconds`.
    #[prost(int32, tag = "2")]
    pub unit_strindex: i32,
}

/// A stack with its value.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Sample {
    /// In the stack table.
    #[prost(int32, tag = "1")]
    pub stack_index: i32,
    /// In the attribute table.
    #[prost(int32, repeated, tag = "2")]
    pub attribute_indices: Vec<i32>,
    /// ns.
    #[prost(int64, repeated, tag = "4")]
    pub values: Vec<i64>,
}

/// A file that code was mapped from.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Mapping {
    /// First address, as the file states it.
    #[prost(uint64, tag = "1")]
    pub memory_start: u64,
    /// First address past the end.
    #[prost(uint64, tag = "2")]
    pub memory_limit: u64,
    /// Its path.
    #[prost(int32, tag = "4")]
    pub filename_strindex: i32,
    /// Its build id.
    #[prost(int32, repeated, tag = "5")]
    pub attribute_indices: Vec<i32>,
}

/// Places in code, innermost first.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Stack {
    /// In the location table.
    #[prost(int32, repeated, tag = "1")]
    pub location_indices: Vec<i32>,
}

/// A place in code.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Location {
    /// In the mapping table.
    #[prost(int32, tag = "1")]
    pub mapping_index: i32,
    /// As the file states it.
    #[prost(uint64, tag = "2")]
    pub address: u64,
    /// Innermost first; all but the last were inlined.
    #[prost(message, repeated, tag = "3")]
    pub lines: Vec<Line>,
    /// Whether it is native code or the kernel.
    #[prost(int32, repeated, tag = "4")]
    pub attribute_indices: Vec<i32>,
}

/// A function and a line of it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Line {
    /// In the function table.
    #[prost(int32, tag = "1")]
    pub function_index: i32,
    /// 0 when unknown.
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Function {
    /// Its name.
    #[prost(int32, tag = "1")]
    pub name_strindex: i32,
    /// Its source file.
    #[prost(int32, tag = "3")]
    pub filename_strindex: i32,
}

/// A span.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Link {}

/// An attribute in the table.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValueAndUnit {
    /// Its name.
    #[prost(int32, tag = "1")]
    pub key_strindex: i32,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// An attribute of a resource.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// An attribute's value.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct AnyValue {
    /// Which it is.
    #[prost(oneof = "Value", tags = "1, 3")]
    pub value: Option<Value>,
}

/// Text or number.
#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
pub enum Value {
    /// Text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A number.
    #[prost(int64, tag = "3")]
    Number(i64),
}

impl From<&str> for AnyValue {
    fn from(text: &str) -> AnyValue {
        AnyValue {
            value: Some(Value::Text(text.to_owned())),
        }
    }
}

impl From<u32> for AnyValue {
    fn from(number: u32) -> AnyValue {
        AnyValue {
            value: Some(Value::Number(i64::from(number))),
        }
    }
}
