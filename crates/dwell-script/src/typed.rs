//! The checked form of a script: every name resolved, every expression typed, every action's arguments in order.
//! The checker makes it from the syntax tree; the code generator reads nothing else.

use crate::schema::{Aggregate, AggregationId};
use crate::span::Span;
use crate::types::{TypeId, Types};

/// A whole script.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// The types of its expressions.
    pub types: Types,
    /// Variables of all three kinds and associative arrays.
    pub variables: Vec<Variable>,
    /// The aggregations, by id.
    pub aggregations: Vec<Aggregation>,
    /// The clauses in the order they run; one that names several probes is here once for each of them, since the
    /// types of its arguments may differ.
    pub clauses: Vec<Clause>,
}

/// Index into [`Script::variables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: Box<str>,
    /// Where it lives.
    pub scope: Scope,
    /// The type of its value (of an element's, if there are keys).
    pub ty: TypeId,
    /// The types of the keys of an associative array.
    pub keys: Option<Vec<TypeId>>,
}

/// Where a variable lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One for all.
    Global,
    /// `self->`: one for each thread; zero until it is assigned, freed when zero is assigned.
    Thread,
    /// `this->`: one for each firing of a probe, shared by the clauses that run for it.
    Clause,
}

/// An aggregation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregation {
    /// The name without `@`.
    pub name: Box<str>,
    /// The types of its keys.
    pub keys: Vec<TypeId>,
    /// Its function; `None` if it is only printed or cleared, never filled.
    pub function: Option<Aggregate>,
    /// Whether what it adds up is signed.
    pub signed: bool,
}

/// A clause with one of its probes.
#[derive(Debug, Clone)]
pub struct Clause {
    /// The probe as the script names it.
    pub probe: ProbePattern,
    /// The condition; always true without one.
    pub predicate: Option<Expr>,
    /// What it does. Empty braces or none: [`Clause::default_action`].
    pub body: Vec<Statement>,
    /// Where it stands.
    pub span: Span,
}

impl Clause {
    /// Whether nothing but the probe's name is to be printed.
    pub fn default_action(&self) -> bool {
        self.body.is_empty()
    }
}

/// A probe description. A part that is empty matches everything; `*`, `?` and `[...]` match as in a shell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProbePattern {
    /// The provider with its process' id where it has one (`pid1234`).
    pub provider: Box<str>,
    /// The module.
    pub module: Box<str>,
    /// The function; C++ names may be in quotes in the script, here without.
    pub function: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The number, if the script names the probe by it.
    pub id: Option<u32>,
    /// Where it stands.
    pub span: Span,
}

/// What a clause does, in order.
#[derive(Debug, Clone)]
pub enum Statement {
    /// An expression whose value is not used.
    Expr(Expr),
    /// `@name[keys] = function(...)`.
    Aggregate {
        /// The aggregation.
        to: AggregationId,
        /// Its keys.
        keys: Vec<Expr>,
        /// What is aggregated; the constant 1 for `count()`.
        value: Expr,
        /// `quantize(x, n)`, `lquantize(x, a, b, s, n)`: how often the value counts; once without it.
        increment: Option<Expr>,
    },
    /// An action whose arguments are recorded for the consumer.
    Record(Recording),
    /// `if (condition) { then } else { otherwise }`.
    If {
        /// The condition.
        condition: Expr,
        /// If it is not 0.
        then: Vec<Statement>,
        /// If it is.
        otherwise: Vec<Statement>,
    },
    /// Something done at once to the target or to memory.
    Act(Act, Vec<Expr>),
}

/// An action whose arguments are recorded; the same cases as the schema's
/// [`ActionKind`](crate::schema::ActionKind), with expressions for fields.
#[derive(Debug, Clone)]
pub enum Recording {
    /// `trace(e)`, and `stack()`, `ustack()`, `sym(e)`, … as statements.
    Trace(Expr),
    /// `tracemem(address, size, length)`; `size` is a constant.
    Tracemem {
        /// The address.
        address: Expr,
        /// Bytes recorded.
        size: u32,
        /// Bytes shown.
        length: Option<Expr>,
    },
    /// `print(e)`.
    Print(Expr),
    /// `printf(format, ...)`.
    Printf(Box<str>, Vec<Expr>),
    /// `printa(format, @a, ...)`.
    Printa(Option<Box<str>>, Vec<AggregationId>),
    /// `clear(@a)`.
    Clear(AggregationId),
    /// `trunc(@a, n)`.
    Trunc(AggregationId, Option<Expr>),
    /// `normalize(@a, n)`.
    Normalize(AggregationId, Expr),
    /// `denormalize(@a)`.
    Denormalize(AggregationId),
    /// `exit(n)`: nothing of this script runs after this clause but END.
    Exit(Expr),
    /// `speculate(id)`.
    Speculate(Expr),
    /// `commit(id)`.
    Commit(Expr),
    /// `discard(id)`.
    Discard(Expr),
    /// `system(format, ...)`; destructive.
    System(Box<str>, Vec<Expr>),
    /// `freopen(format, ...)`; destructive.
    Freopen(Box<str>, Vec<Expr>),
    /// `setopt(name, value)`.
    Setopt(Box<str>, Option<Box<str>>),
}

/// What is done where the probe fires. All are destructive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// `stop()`: stops the process that fired.
    Stop,
    /// `raise(signal)`.
    Raise,
    /// `chill(nanoseconds)`.
    Chill,
    /// `copyout(from, address, size)`.
    Copyout,
    /// `copyoutstr(string, address, size)`.
    Copyoutstr,
}

/// A typed expression.
#[derive(Debug, Clone)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// The type of its value. Integers are computed with 64 bits and cut to their size when they are stored, cast
    /// or compared, as D does.
    pub ty: TypeId,
    /// Where it stands.
    pub span: Span,
}

/// The cases of an expression. Conversions are explicit: operands of a [`Binary`](ExprKind::Binary) have the type
/// the operation is made in, pointer arithmetic is already multiplied out, arrays that are used as values are
/// [`AddressOf`](ExprKind::AddressOf) their first element.
#[derive(Debug, Clone)]
pub enum ExprKind {
    /// A constant.
    Int(i64),
    /// A string constant, escapes resolved, without the final zero.
    String(Box<str>),
    /// The value at a place. Of records and arrays only the address is ever taken, or they are recorded by `print`,
    /// `trace` or as a key, as bytes.
    Read(Box<Place>),
    /// A variable of the probe or the system.
    Builtin(Builtin),
    /// `&place`.
    AddressOf(Box<Place>),
    /// `-x`, `~x`, `!x`.
    Unary(Unary, Box<Expr>),
    /// Arithmetic, comparison, shifts. Comparisons of strings compare up to the zero.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `a && b`, evaluated from the left as far as needed.
    And(Box<Expr>, Box<Expr>),
    /// `a || b`.
    Or(Box<Expr>, Box<Expr>),
    /// `a ^^ b`.
    Xor(Box<Expr>, Box<Expr>),
    /// `c ? a : b`.
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A conversion to this expression's type: cut and extended, or (to `string`) `stringof`: from an address the
    /// bytes up to a zero are read, from a character array likewise. From `string` to a pointer or an integer: the
    /// address of its bytes.
    Cast(Box<Expr>),
    /// `place = value`, a compound assignment being written out by the checker with `place` evaluated once where
    /// its address has side effects; its value is the place's new one.
    Assign(Box<Place>, Box<Expr>),
    /// `place op= value`.
    Update(Box<Place>, Binary, Box<Expr>),
    /// `++x`, `x++`, `--x`, `x--`; the amount is the pointed-to size for pointers, negative to decrement.
    Step {
        /// What is changed.
        place: Box<Place>,
        /// By how much.
        by: i64,
        /// Whether the value is the one from before.
        postfix: bool,
    },
    /// `a, b`.
    Comma(Box<Expr>, Box<Expr>),
    /// A call of one of D's functions.
    Call(Function, Vec<Expr>),
}

/// Something that can be read and, but for the target's and the kernel's memory, assigned to.
#[derive(Debug, Clone)]
pub struct Place {
    /// What it is.
    pub kind: PlaceKind,
    /// The type of the value there.
    pub ty: TypeId,
}

/// The cases of a place.
#[derive(Debug, Clone)]
pub enum PlaceKind {
    /// A variable.
    Variable(VariableId),
    /// An element of an associative array.
    Element(VariableId, Vec<Expr>),
    /// A part of an element that holds a record or an array: at a constant offset.
    ElementPart(VariableId, Vec<Expr>, u32),
    /// Memory at the address that the expression gives: `*p`, `p->m`, `a[i]`, `` `symbol ``. Loading from it may
    /// fault, which fires ERROR and ends the clause.
    Memory(Expr),
    /// Some bits of the integer at an address (a bit-field): counted from the least significant bit of the integer
    /// of the place's own type's size.
    Bits {
        /// Where the integer is.
        address: Expr,
        /// The lowest bit.
        shift: u8,
        /// The number of bits.
        width: u8,
    },
    /// A thread-local variable of the target: the offset from the thread pointer.
    ThreadPointer {
        /// Bytes, negative on x86-64.
        offset: i64,
    },
    /// A part of a variable that holds a record or an array: at a constant offset.
    Part(VariableId, u32),
}

/// Operators on one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unary {
    /// `-`
    Negate,
    /// `~`
    Complement,
    /// `!`
    Not,
}

/// Operators on two operands. Division, remainder, right shift and the orders go by the signedness of the operands'
/// type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "C's operators by their usual names")]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    /// By zero: ERROR.
    Divide,
    /// By zero: ERROR.
    Remainder,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Variables that the probe or the system gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is D's variable of the same name")]
pub enum Builtin {
    /// `arg0` … `arg9`, and `args[n]`, which is the checked cast of it.
    Arg(u8),
    /// `uregs[n]` with a constant index, in the order of dtrace's `R_*` constants for x86-64.
    Register(u8),
    Caller,
    Cpu,
    Epid,
    Errno,
    Execname,
    Gid,
    Id,
    Ipl,
    Pid,
    ProbeFunction,
    ProbeModule,
    ProbeName,
    ProbeProvider,
    StackDepth,
    Tid,
    Timestamp,
    Ucaller,
    Uid,
    UserStackDepth,
    Vtimestamp,
    Walltimestamp,
    /// The address of the kernel's `task_struct` of the thread.
    CurrentTask,
}

/// D's functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is D's function of the same name")]
pub enum Function {
    Alloca,
    Argstr,
    Basename,
    Bcopy,
    Cleanpath,
    Copyin,
    Copyinstr,
    Copyinto,
    Dirname,
    Htonl,
    Htonll,
    Htons,
    Index,
    InetNtoa,
    InetNtoa6,
    InetNtop,
    Lltostr,
    Ntohl,
    Ntohll,
    Ntohs,
    Progenyof,
    Rand,
    Rindex,
    Speculation,
    Strchr,
    Strjoin,
    Strlen,
    Strrchr,
    Strstr,
    /// The first argument may be the constant 0 of type `string`: go on with the string of the last call.
    Strtok,
    Strtoll,
    Substr,
    Tolower,
    Toupper,
    /// As keys and traced values; the type tells how many frames.
    Stack,
    /// Likewise.
    UserStack,
    /// `sym`, `mod`, `func` of a kernel address.
    KernelAddress(crate::schema::AddressPart),
    /// `usym`, `umod`, `ufunc`, `uaddr`.
    UserAddress(crate::schema::AddressPart),
}
