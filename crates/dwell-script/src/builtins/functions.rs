//! D's functions and their prototypes, in dtrace's notation: `@` is any value, brackets stand around what may be
//! left out, `...` for more.

use crate::schema::AddressPart;
use crate::typed::{Act, Function};

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callee {
    /// A value.
    Value(Function),
    /// Aggregates; only to the right of `@name =`.
    Aggregating(Aggregating),
    /// A stack of the kernel or, if set, of the user side.
    Stack(bool),
    /// Done at once, destructive.
    Act(Act),
    /// Recorded for the consumer.
    Action(Action),
    /// Known to dtrace, not done here, and why.
    Missing(&'static str),
}

/// The aggregating functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is D's function of the same name")]
pub(crate) enum Aggregating {
    Count,
    Sum,
    Min,
    Max,
    Avg,
    Stddev,
    Quantize,
    Lquantize,
    Llquantize,
}

/// The actions that leave something in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Trace,
    Tracemem,
    Print,
    Printf,
    Printa,
    Clear,
    Trunc,
    Normalize,
    Denormalize,
    Exit,
    Speculate,
    Commit,
    Discard,
    System,
    Freopen,
    Ftruncate,
    Setopt,
}

/// A function: its name, what it does, the type it gives, its parameters.
pub(crate) struct Prototype {
    pub name: &'static str,
    pub callee: Callee,
    pub gives: &'static str,
    pub takes: &'static [&'static str],
}

macro_rules! functions {
    ($($name:literal $callee:expr => $gives:literal [$($takes:literal),*];)*) => {
        &[$(Prototype { name: $name, callee: $callee, gives: $gives, takes: &[$($takes),*] }),*]
    };
}

use Callee::{Action as A, Aggregating as G, Missing, Stack, Value as V};

/// All of them.
#[rustfmt::skip]
pub(crate) const FUNCTIONS: &[Prototype] = functions! {
    "alloca" V(Function::Alloca) => "void *" ["size_t"];
    "argstr" V(Function::Argstr) => "string" ["uintptr_t", "size_t"];
    "avg" G(Aggregating::Avg) => "void" ["@"];
    "basename" V(Function::Basename) => "string" ["const char *"];
    "bcopy" V(Function::Bcopy) => "void" ["void *", "void *", "size_t"];
    "breakpoint" Missing("there is no kernel debugger") => "void" [];
    "chill" Callee::Act(Act::Chill) => "void" ["int"];
    "cleanpath" V(Function::Cleanpath) => "string" ["const char *"];
    "clear" A(Action::Clear) => "void" ["@"];
    "commit" A(Action::Commit) => "void" ["int"];
    "copyin" V(Function::Copyin) => "void *" ["uintptr_t", "size_t"];
    "copyinstr" V(Function::Copyinstr) => "string" ["uintptr_t", "[size_t]"];
    "copyinto" V(Function::Copyinto) => "void" ["uintptr_t", "size_t", "void *"];
    "copyout" Callee::Act(Act::Copyout) => "void" ["void *", "uintptr_t", "size_t"];
    "copyoutstr" Callee::Act(Act::Copyoutstr) => "void" ["char *", "uintptr_t", "size_t"];
    "count" G(Aggregating::Count) => "void" [];
    "denormalize" A(Action::Denormalize) => "void" ["@"];
    "dirname" V(Function::Dirname) => "string" ["const char *"];
    "discard" A(Action::Discard) => "void" ["int"];
    "exit" A(Action::Exit) => "void" ["int"];
    "freopen" A(Action::Freopen) => "void" ["@", "..."];
    "ftruncate" A(Action::Ftruncate) => "void" [];
    "func" V(Function::KernelAddress(AddressPart::Function)) => "_symaddr" ["uintptr_t"];
    "htonl" V(Function::Htonl) => "uint32_t" ["uint32_t"];
    "htonll" V(Function::Htonll) => "uint64_t" ["uint64_t"];
    "htons" V(Function::Htons) => "uint16_t" ["uint16_t"];
    "index" V(Function::Index) => "int" ["const char *", "const char *", "[int]"];
    "inet_ntoa" V(Function::InetNtoa) => "string" ["ipaddr_t *"];
    "inet_ntoa6" V(Function::InetNtoa6) => "string" ["struct in6_addr *", "[int]"];
    "inet_ntop" V(Function::InetNtop) => "string" ["int", "void *"];
    "jstack" Stack(true) => "stack" ["[uint32_t]", "[uint32_t]"];
    "llquantize" G(Aggregating::Llquantize) => "void" ["@", "int32_t", "int32_t", "int32_t", "int32_t", "..."];
    "lltostr" V(Function::Lltostr) => "string" ["int64_t", "[int]"];
    "lquantize" G(Aggregating::Lquantize) => "void" ["@", "int32_t", "int32_t", "..."];
    "max" G(Aggregating::Max) => "void" ["@"];
    "min" G(Aggregating::Min) => "void" ["@"];
    "mod" V(Function::KernelAddress(AddressPart::Module)) => "_symaddr" ["uintptr_t"];
    "normalize" A(Action::Normalize) => "void" ["@", "uint64_t"];
    "ntohl" V(Function::Ntohl) => "uint32_t" ["uint32_t"];
    "ntohll" V(Function::Ntohll) => "uint64_t" ["uint64_t"];
    "ntohs" V(Function::Ntohs) => "uint16_t" ["uint16_t"];
    "panic" Missing("the machine is not ours to stop") => "void" [];
    "print" A(Action::Print) => "void" ["@"];
    "printa" A(Action::Printa) => "void" ["@", "..."];
    "printf" A(Action::Printf) => "void" ["@", "..."];
    "progenyof" V(Function::Progenyof) => "int" ["pid_t"];
    "quantize" G(Aggregating::Quantize) => "void" ["@", "..."];
    "raise" Callee::Act(Act::Raise) => "void" ["int"];
    "rand" V(Function::Rand) => "int" [];
    "rindex" V(Function::Rindex) => "int" ["const char *", "const char *", "[int]"];
    "setopt" A(Action::Setopt) => "void" ["const char *", "[const char *]"];
    "speculate" A(Action::Speculate) => "void" ["int"];
    "speculation" V(Function::Speculation) => "int" [];
    "stack" Stack(false) => "stack" ["[uint32_t]"];
    "stddev" G(Aggregating::Stddev) => "void" ["@"];
    "stop" Callee::Act(Act::Stop) => "void" [];
    "strchr" V(Function::Strchr) => "string" ["const char *", "char"];
    "strjoin" V(Function::Strjoin) => "string" ["const char *", "const char *"];
    "strlen" V(Function::Strlen) => "size_t" ["const char *"];
    "strrchr" V(Function::Strrchr) => "string" ["const char *", "char"];
    "strstr" V(Function::Strstr) => "string" ["const char *", "const char *"];
    "strtok" V(Function::Strtok) => "string" ["const char *", "const char *"];
    "strtoll" V(Function::Strtoll) => "int64_t" ["const char *", "[int]"];
    "substr" V(Function::Substr) => "string" ["const char *", "int", "[int]"];
    "sum" G(Aggregating::Sum) => "void" ["@"];
    "sym" V(Function::KernelAddress(AddressPart::Symbol)) => "_symaddr" ["uintptr_t"];
    "system" A(Action::System) => "void" ["@", "..."];
    "tolower" V(Function::Tolower) => "string" ["const char *"];
    "toupper" V(Function::Toupper) => "string" ["const char *"];
    "trace" A(Action::Trace) => "void" ["@"];
    "tracemem" A(Action::Tracemem) => "void" ["@", "size_t", "[size_t]"];
    "trunc" A(Action::Trunc) => "void" ["@", "[int64_t]"];
    "uaddr" V(Function::UserAddress(AddressPart::Exact)) => "_usymaddr" ["uintptr_t"];
    "ufunc" V(Function::UserAddress(AddressPart::Function)) => "_usymaddr" ["uintptr_t"];
    "umod" V(Function::UserAddress(AddressPart::Module)) => "_usymaddr" ["uintptr_t"];
    "ustack" Stack(true) => "stack" ["[uint32_t]", "[uint32_t]"];
    "usym" V(Function::UserAddress(AddressPart::Symbol)) => "_usymaddr" ["uintptr_t"];
};

/// The function of that name.
pub(crate) fn function(name: &str) -> Option<&'static Prototype> {
    FUNCTIONS.iter().find(|prototype| prototype.name == name)
}
