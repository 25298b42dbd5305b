//! The messages of Perfetto's `trace.proto` that are written, field by field as it numbers them.
use prost::Message;

/// A packet as one piece of a trace: traces are such pieces behind each other.
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    /// One packet.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// One thing that is told.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// ns of CLOCK_BOOTTIME.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// The same instant by several clocks.
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    /// The packets that numbers are valid in.
    #[prost(uint32, tag = "10")]
    pub trusted_packet_sequence_id: u32,
    /// Something on a track.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// What numbers mean from here on.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// 1: numbers begin anew; 2: the packet has numbers.
    #[prost(uint32, tag = "13")]
    pub sequence_flags: u32,
    /// A track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// The same instant by several clocks.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ClockSnapshot {
    /// What each says.
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    /// The clock of the trace.
    #[prost(int32, tag = "2")]
    pub primary_trace_clock: i32,
}

/// What a clock says.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Clock {
    /// Which.
    #[prost(uint32, tag = "1")]
    pub clock_id: u32,
    /// ns.
    #[prost(uint64, tag = "2")]
    pub timestamp: u64,
}

/// A row of the timeline.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TrackDescriptor {
    /// Its number.
    #[prost(uint64, tag = "1")]
    pub uuid: u64,
    /// The track that it is below of.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// For a process.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// For a thread.
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
}

/// A process.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProcessDescriptor {
    /// Its id.
    #[prost(int32, tag = "1")]
    pub pid: i32,
    /// Its name.
    #[prost(string, tag = "6")]
    pub process_name: String,
}

/// A thread.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ThreadDescriptor {
    /// Its process' id.
    #[prost(int32, tag = "1")]
    pub pid: i32,
    /// Its id.
    #[prost(int64, tag = "2")]
    pub tid: i64,
    /// Its name.
    #[prost(string, tag = "5")]
    pub thread_name: String,
}

/// Something on a track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// The states' names.
    #[prost(string, repeated, tag = "22")]
    pub categories: Vec<String>,
    /// As numbered.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// As text.
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    /// 1: a slice begins, 2: it ends, 3: an instant.
    #[prost(int32, tag = "9")]
    pub r#type: i32,
    /// Where.
    #[prost(uint64, tag = "11")]
    pub track_uuid: u64,
    /// Arrows that go on here.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    /// Arrows that end here.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
    /// The stack.
    #[prost(uint64, optional, tag = "56")]
    pub callstack_iid: Option<u64>,
    /// What the stack stands for, ns of thread time.
    #[prost(double, optional, tag = "57")]
    pub callstack_weight: Option<f64>,
}

/// What numbers mean.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct InternedData {
    /// Names of slices.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<EventName>,
    /// Names of functions.
    #[prost(message, repeated, tag = "5")]
    pub function_names: Vec<InternedString>,
    /// Frames.
    #[prost(message, repeated, tag = "6")]
    pub frames: Vec<Frame>,
    /// Stacks.
    #[prost(message, repeated, tag = "7")]
    pub callstacks: Vec<Callstack>,
}

/// A slice's name.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct EventName {
    /// Its number.
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    /// The name.
    #[prost(string, tag = "2")]
    pub name: String,
}

/// A function's name.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct InternedString {
    /// Its number.
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    /// The name.
    #[prost(bytes = "vec", tag = "2")]
    pub str: Vec<u8>,
}

/// A frame: a function.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Frame {
    /// Its number.
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    /// The function's.
    #[prost(uint64, tag = "2")]
    pub function_name_id: u64,
}

/// A stack.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Callstack {
    /// Its number.
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    /// Outermost first.
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub frame_ids: Vec<u64>,
}
