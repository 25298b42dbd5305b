//! What a script's records and aggregations look like: written by the code generator, read by the printer.

use crate::types::TypeId;

/// One aggregation (`@name[...] = function(...)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AggregationId(pub u32);

/// One clause of a compiled script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClauseId(pub u32);

/// How the bytes of a field are to be understood and, where nothing else is said, printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldKind {
    /// An integer of the field's size (1, 2, 4 or 8).
    Int {
        /// Whether it is sign-extended.
        signed: bool,
    },
    /// A pointer; `trace` prints it as an unsigned integer, as dtrace does.
    Pointer,
    /// Bytes up to a zero.
    String,
    /// Any other object, printed as `tracemem` prints.
    Bytes,
    /// A kernel stack: return addresses of 8 bytes, innermost first, up to a zero.
    KernelStack,
    /// A user stack: the process' id in 8 bytes, then addresses as in a kernel stack, but as
    /// `dwell_abi::program::operation::USER_STACK` marks them. `strings` is `ustack`'s second
    /// argument, kept for the option's sake.
    UserStack {
        /// Bytes for names of frames; 0 where not asked for.
        strings: u32,
    },
    /// An address of the kernel that is printed by name (`sym`, `mod`, `func`).
    KernelAddress(AddressPart),
    /// The process' id in 8 bytes, then an address of its, printed by name (`usym`, `umod`, `ufunc`, `uaddr`).
    UserAddress(AddressPart),
    /// `print`: the value of a type.
    Typed(TypeId),
}

/// Which part of an address' name is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressPart {
    /// `` module`function ``.
    Function,
    /// `module`.
    Module,
    /// `` module`symbol ``, data included.
    Symbol,
    /// `` module`symbol+0x1f ``.
    Exact,
}

/// A value in a record or in a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the start of the record's data, or of the key. Fields of 8 bytes and less are aligned to their size.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// What they are.
    pub kind: FieldKind,
}

/// What one firing of a clause leaves for the consumer: every action's fields side by side, of fixed size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClauseSchema {
    /// Bytes of the record's data; 0 if the clause leaves no record.
    pub size: u32,
    /// Its data recording actions, in the order of the source.
    pub actions: Vec<Action>,
    /// Whether the clause has no statements. Its record then has no data; its line is the header (CPU, ID,
    /// FUNCTION:NAME) alone. The printer leaves out headers in quiet mode, for every clause.
    pub default_action: bool,
}

/// One action of a clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// If the action stands in an `if`, the bit of the record's `done` word that says that it was carried out.
    pub condition: Option<u8>,
    /// What it does.
    pub kind: ActionKind,
}

/// What an action does when its record is consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionKind {
    /// `trace`, `stack`, `ustack`, `sym`, … : the value in its kind's own layout.
    Trace(Field),
    /// `tracemem(address, size, length)`: a hex dump of `length`'s bytes, or all.
    Tracemem {
        /// The bytes.
        bytes: Field,
        /// The length computed at run time.
        length: Option<Field>,
    },
    /// `print(expression)`: the value with its type and members' names.
    Print(Field),
    /// `print(pointer)`: the address, and what lies there with its type and members' names.
    PrintAt {
        /// The pointer.
        address: Field,
        /// What it points to, up to the option `printsize`.
        value: Field,
    },
    /// `printf`.
    Printf {
        /// The format as it stands in the source, escapes resolved.
        format: Box<str>,
        /// The arguments.
        fields: Vec<Field>,
    },
    /// `printa`.
    Printa {
        /// The format; the default layout without one.
        format: Option<Box<str>>,
        /// One or several aggregations with the same keys.
        aggregations: Vec<AggregationId>,
    },
    /// `clear(@a)`: values to zero, keys stay.
    Clear(AggregationId),
    /// `trunc(@a[, n])`: keeps the n greatest (or for a negative n the -n smallest), none without n.
    Trunc(AggregationId, Option<Field>),
    /// `normalize(@a, divisor)`.
    Normalize(AggregationId, Field),
    /// `denormalize(@a)`.
    Denormalize(AggregationId),
    /// `exit(status)`.
    Exit(Field),
    /// `speculate(id)`: what follows in this record belongs to the speculation.
    Speculate(Field),
    /// `commit(id)`.
    Commit(Field),
    /// `discard(id)`.
    Discard(Field),
    /// `system(format, ...)`.
    System {
        /// As in `Printf`.
        format: Box<str>,
        /// The arguments.
        fields: Vec<Field>,
    },
    /// `freopen(format, ...)`: further output goes to that file; an empty name back to standard output.
    Freopen {
        /// As in `Printf`.
        format: Box<str>,
        /// The arguments.
        fields: Vec<Field>,
    },
    /// `setopt(name[, value])`.
    Setopt {
        /// The option.
        name: Box<str>,
        /// Its value.
        value: Option<Box<str>>,
    },
}

/// An aggregating function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// Values: `[count]`.
    Count,
    /// Values: `[sum]`.
    Sum,
    /// Values: `[least]`.
    Min,
    /// Values: `[greatest]`.
    Max,
    /// Values: `[count, sum]`.
    Avg,
    /// Values: `[count, sum, low and high 64 bits of the sum of squares]`.
    Stddev,
    /// Powers of two. Values: 127 buckets: 63 negative (the first for the most negative), zero, 63 positive.
    Quantize,
    /// Steps from `base` (inclusive) to `limit` (exclusive). Values: below, one a step, at or above the limit.
    Lquantize {
        /// The lower bound.
        base: i32,
        /// The upper bound.
        limit: i32,
        /// The width of a bucket, above 0.
        step: u16,
    },
    /// Logarithmic steps, linear within a magnitude, as dtrace defines `llquantize`. Values: negative buckets (the
    /// most negative first), the middle one for magnitudes below `factor^low`, positive ones.
    Llquantize {
        /// The base of the logarithm.
        factor: u16,
        /// The least magnitude: `factor^low`.
        low: u16,
        /// The greatest magnitude; values from `factor^(high+1)` on share the last bucket.
        high: u16,
        /// Buckets per magnitude.
        steps: u16,
    },
}

/// What is known of an aggregation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregationSchema {
    /// The name without `@`, empty for `@` alone.
    pub name: Box<str>,
    /// The keys; offsets within the key's bytes.
    pub keys: Vec<Field>,
    /// Bytes of a key, a multiple of 8; padding is zero.
    pub key_size: u32,
    /// The function.
    pub function: Aggregate,
    /// Whether the aggregated values are signed (`min`, `max`, `avg`, `sum` and the bounds of quantize's printing).
    pub signed: bool,
}

/// The value of an aggregation for one key, added up over all processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The key's bytes, `key_size` of them.
    pub key: Box<[u8]>,
    /// The function's values.
    pub values: Box<[i64]>,
}

/// The start of every record; what follows are the `size` bytes of its clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct RecordHeader {
    /// The clause.
    pub clause: u32,
    /// The probe that fired, as `dwell trace -l` numbers them.
    pub probe: u32,
    /// The processor.
    pub cpu: u32,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The speculation this record belongs to, 0 for none.
    pub speculation: u32,
    /// Which conditional actions were carried out.
    pub done: u64,
}

/// The name of a probe as it fired.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProbeName {
    /// The provider.
    pub provider: Box<str>,
    /// The module.
    pub module: Box<str>,
    /// The function.
    pub function: Box<str>,
    /// The name.
    pub name: Box<str>,
}
