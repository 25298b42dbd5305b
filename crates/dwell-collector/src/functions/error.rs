//! Why kernel functions cannot be traced.
use crate::error::CollectError;

/// What a kernel needs to let eBPF programs be put at its functions.
pub(crate) const REQUIREMENTS: &str = "run as root, on a kernel built with CONFIG_FUNCTION_TRACER, CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS and CONFIG_DEBUG_INFO_BTF (those of Debian, Fedora, RHEL and Ubuntu are), where neither the machine's provider nor lockdown forbids tracing";

/// Why kernel functions cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum FunctionsError {
    /// No function at all can be traced here.
    #[error("this kernel does not let functions be traced: {0}\n  remedy: {REQUIREMENTS}")]
    Unsupported(String),
    /// Nothing of that name.
    #[error("the kernel has no function {name}{}", did_you_mean(.near))]
    Unknown {
        /// As it was given.
        name: String,
        /// Functions whose names are like it, best first.
        near: Vec<String>,
    },
    /// It is there, but this one cannot be traced.
    #[error("the function {name} cannot be traced: {why}{}", did_you_mean(.near))]
    Refused {
        /// As it was given.
        name: String,
        /// What stands against it.
        why: String,
        /// Functions whose names are like it, best first.
        near: Vec<String>,
    },
    /// More than there is room for.
    #[error("{0} functions are too many at once; {max} are possible", max = super::MAX_FUNCTIONS)]
    TooMany(usize),
    /// Anything that can go wrong with eBPF.
    #[error(transparent)]
    Collect(#[from] CollectError),
}

impl FunctionsError {
    /// The same without the remedy.
    pub fn reason(&self) -> String {
        match self {
            FunctionsError::Unsupported(why) => why.clone(),
            other => other.to_string(),
        }
    }
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() {
        String::new()
    } else {
        format!("\n  did you mean {}?", near.join(", "))
    }
}
