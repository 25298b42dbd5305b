//! D's variables, with the types that dtrace gives them.

use crate::typed::Builtin;

pub(crate) const VARIABLES: &[(&str, Builtin, &str)] = &[
    ("arg0", Builtin::Arg(0), "int64_t"),
    ("arg1", Builtin::Arg(1), "int64_t"),
    ("arg2", Builtin::Arg(2), "int64_t"),
    ("arg3", Builtin::Arg(3), "int64_t"),
    ("arg4", Builtin::Arg(4), "int64_t"),
    ("arg5", Builtin::Arg(5), "int64_t"),
    ("arg6", Builtin::Arg(6), "int64_t"),
    ("arg7", Builtin::Arg(7), "int64_t"),
    ("arg8", Builtin::Arg(8), "int64_t"),
    ("arg9", Builtin::Arg(9), "int64_t"),
    ("caller", Builtin::Caller, "uintptr_t"),
    ("cpu", Builtin::Cpu, "processorid_t"),
    ("epid", Builtin::Epid, "uint_t"),
    ("errno", Builtin::Errno, "int"),
    ("execname", Builtin::Execname, "string"),
    ("gid", Builtin::Gid, "gid_t"),
    ("id", Builtin::Id, "uint_t"),
    ("ipl", Builtin::Ipl, "uint_t"),
    ("pid", Builtin::Pid, "pid_t"),
    ("probefunc", Builtin::ProbeFunction, "string"),
    ("probemod", Builtin::ProbeModule, "string"),
    ("probename", Builtin::ProbeName, "string"),
    ("probeprov", Builtin::ProbeProvider, "string"),
    ("stackdepth", Builtin::StackDepth, "uint32_t"),
    ("tid", Builtin::Tid, "id_t"),
    ("timestamp", Builtin::Timestamp, "uint64_t"),
    ("ucaller", Builtin::Ucaller, "uint64_t"),
    ("uid", Builtin::Uid, "uid_t"),
    ("ustackdepth", Builtin::UserStackDepth, "uint32_t"),
    ("vtimestamp", Builtin::Vtimestamp, "uint64_t"),
    ("walltimestamp", Builtin::Walltimestamp, "int64_t"),
];

/// Names of variables that are not scalars and are looked up apart.
pub(crate) const SPECIAL: &[&str] = &["args", "uregs", "curthread"];

/// The registers of `uregs[]`, by the names of dtrace's constants.
#[rustfmt::skip]
pub(crate) const REGISTERS: &[(&str, i64)] = &[
    ("R_R15", 0),
    ("R_R14", 1),
    ("R_R13", 2),
    ("R_R12", 3),
    ("R_RBP", 4),
    ("R_EBP", 4),
    ("R_FP", 4),
    ("R_RBX", 5),
    ("R_EBX", 5),
    ("R_R1", 5),
    ("R_R11", 6),
    ("R_R10", 7),
    ("R_R9", 8),
    ("R_R8", 9),
    ("R_RAX", 10),
    ("R_EAX", 10),
    ("R_R0", 10),
    ("R_RCX", 11),
    ("R_ECX", 11),
    ("R_RDX", 12),
    ("R_EDX", 12),
    ("R_RSI", 13),
    ("R_ESI", 13),
    ("R_RDI", 14),
    ("R_EDI", 14),
    ("R_ERR", 15),
    ("R_RIP", 16),
    ("R_EIP", 16),
    ("R_PC", 16),
    ("R_CS", 17),
    ("R_RFL", 18),
    ("R_EFL", 18),
    ("R_PS", 18),
    ("R_RSP", 19),
    ("R_ESP", 19),
    ("R_SP", 19),
    ("R_SS", 20),
];

/// The number of elements of `uregs[]`.
pub(crate) const REGISTER_COUNT: i64 = 21;
