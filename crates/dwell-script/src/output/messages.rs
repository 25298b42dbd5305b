//! What is said on standard error: losses and faults.

use crate::schema::ProbeName;

/// What was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drop {
    /// Records that found no room.
    Principal {
        /// Where.
        cpu: u32,
    },
    /// Keys of aggregations that found no room.
    Aggregation {
        /// Where.
        cpu: u32,
    },
    /// Thread-local variables and elements of arrays that found no room.
    Dynamic,
    /// Records of speculations that found no room.
    Speculation,
    /// Calls of `speculation()` that found all still being committed or discarded.
    SpeculationBusy,
    /// Calls of `speculation()` that found all in use.
    SpeculationUnavailable,
    /// Faults in clauses of ERROR.
    DoubleError,
}

impl Drop {
    /// dtrace's name of it, shown with the option `droptags`.
    fn tag(self) -> &'static str {
        match self {
            Drop::Principal { .. } => "DTRACEDROP_PRINCIPAL",
            Drop::Aggregation { .. } => "DTRACEDROP_AGGREGATION",
            Drop::Dynamic => "DTRACEDROP_DYNAMIC",
            Drop::Speculation => "DTRACEDROP_SPEC",
            Drop::SpeculationBusy => "DTRACEDROP_SPECBUSY",
            Drop::SpeculationUnavailable => "DTRACEDROP_SPECUNAVAIL",
            Drop::DoubleError => "DTRACEDROP_DBLERROR",
        }
    }

    /// `12 drops on CPU 0`, with the tag in front if it is wanted.
    pub fn message(self, count: u64, tagged: bool) -> String {
        let plural = if count > 1 { "s" } else { "" };
        let text = match self {
            Drop::Principal { cpu } => format!("{count} drop{plural} on CPU {cpu}"),
            Drop::Aggregation { cpu } => format!("{count} aggregation drop{plural} on CPU {cpu}"),
            Drop::Dynamic => format!("{count} dynamic variable drop{plural}"),
            Drop::Speculation => format!("{count} speculative drop{plural}"),
            Drop::SpeculationBusy => {
                format!("{count} failed speculation{plural} (available buffer(s) still busy)")
            }
            Drop::SpeculationUnavailable => {
                format!("{count} failed speculation{plural} (no speculative buffer available)")
            }
            Drop::DoubleError => format!("{count} error{plural} in ERROR probe enabling"),
        };
        match tagged {
            true => format!("[{}] {text}", self.tag()),
            false => text,
        }
    }
}

/// What went wrong in a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Memory that cannot be read or written; the address if it is known.
    Address(Option<u64>),
    /// An address that is not a multiple of its object's size.
    Alignment(u64),
    /// Something that cannot be done.
    Operation,
    /// A division by zero.
    DivisionByZero,
    /// No room for `alloca` and its like.
    Scratch,
    /// Memory of the kernel that the user may not read.
    KernelAccess,
    /// Memory of a process that the user may not read.
    UserAccess,
    /// Too many keys.
    Tuple,
    /// A stack that cannot be walked, from this address on.
    Stack(u64),
    /// A size that cannot be.
    Size(u64),
    /// An index beyond the end.
    Index(i64),
    /// In the printing.
    Library,
}

impl Fault {
    /// dtrace's number of it, which ERROR gets as `arg4`.
    pub fn number(self) -> u64 {
        match self {
            Fault::Address(_) => 1,
            Fault::Alignment(_) => 2,
            Fault::Operation => 3,
            Fault::DivisionByZero => 4,
            Fault::Scratch => 5,
            Fault::KernelAccess => 6,
            Fault::UserAccess => 7,
            Fault::Tuple => 8,
            Fault::Stack(_) => 9,
            Fault::Size(_) => 10,
            Fault::Index(_) => 11,
            Fault::Library => 1000,
        }
    }

    /// `invalid address (0x0)`.
    fn text(self) -> String {
        match self {
            Fault::Address(Some(address)) => format!("invalid address ({address:#x})"),
            Fault::Address(None) => "invalid address".to_owned(),
            Fault::Alignment(address) => format!("invalid alignment ({address:#x})"),
            Fault::Operation => "illegal operation".to_owned(),
            Fault::DivisionByZero => "divide-by-zero".to_owned(),
            Fault::Scratch => "out of scratch space".to_owned(),
            Fault::KernelAccess => "invalid kernel access".to_owned(),
            Fault::UserAccess => "invalid user access".to_owned(),
            Fault::Tuple => "tuple stack overflow".to_owned(),
            Fault::Stack(address) => format!("bad stack ({address:#x})"),
            Fault::Size(size) => format!("invalid size ({size:#x})"),
            Fault::Index(index) => format!("index out of bounds ({index})"),
            Fault::Library => "library-level fault".to_owned(),
        }
    }
}

/// Where in a clause something went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// In the predicate.
    Predicate {
        /// The instruction.
        offset: u32,
    },
    /// In an action.
    Action {
        /// Counted from 1.
        number: u32,
        /// The instruction.
        offset: u32,
    },
    /// Nobody knows.
    Unknown,
}

/// `error on enabled probe ID 2 (ID 12: provider:module:function:name): what`. The enabled probe is the clause, which
/// is counted from 1 here.
pub fn error(clause: u32, probe: (u32, &ProbeName), what: &str) -> String {
    let (id, name) = probe;
    let ProbeName {
        provider,
        module,
        function,
        name,
    } = name;
    let enabled = u64::from(clause) + 1;
    format!(
        "error on enabled probe ID {enabled} (ID {id}: {provider}:{module}:{function}:{name}): {what}"
    )
}

/// What is said of a fault: `… invalid address (0x0) in action #1 at DIF offset 12`.
pub fn fault(clause: u32, probe: (u32, &ProbeName), fault: Fault, place: Where) -> String {
    let text = fault.text();
    let what = match place {
        Where::Predicate { offset } => format!("{text} in predicate at DIF offset {offset}"),
        Where::Action { number, offset } => {
            format!("{text} in action #{number} at DIF offset {offset}")
        }
        Where::Unknown => text,
    };
    error(clause, probe, &what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops() {
        assert_eq!(
            Drop::Principal { cpu: 0 }.message(12, false),
            "12 drops on CPU 0"
        );
        assert_eq!(
            Drop::Aggregation { cpu: 3 }.message(1, true),
            "[DTRACEDROP_AGGREGATION] 1 aggregation drop on CPU 3"
        );
        assert_eq!(
            Drop::SpeculationUnavailable.message(3, false),
            "3 failed speculations (no speculative buffer available)"
        );
        assert_eq!(
            Drop::DoubleError.message(1, false),
            "1 error in ERROR probe enabling"
        );
    }

    #[test]
    fn faults() {
        let name = ProbeName {
            provider: "dtrace".into(),
            name: "BEGIN".into(),
            ..ProbeName::default()
        };
        let place = Where::Action {
            number: 1,
            offset: 12,
        };
        assert_eq!(
            fault(1, (12, &name), Fault::Address(Some(0)), place),
            "error on enabled probe ID 2 (ID 12: dtrace:::BEGIN): \
            invalid address (0x0) in action #1 at DIF offset 12"
        );
        let place = Where::Predicate { offset: 4 };
        assert_eq!(
            fault(0, (1, &name), Fault::DivisionByZero, place),
            "error on enabled probe ID 1 (ID 1: dtrace:::BEGIN): \
            divide-by-zero in predicate at DIF offset 4"
        );
    }
}
