//! Whether the kernel lets functions be traced at all.
use super::error::FunctionsError;
use super::programs::Traced;
use std::path::Path;

/// Functions that are there to be traced for a test: nobody calls them.
const HARMLESS: [&str; 2] = ["bpf_fentry_test1", "bpf_modify_return_test"];

/// Asks the kernel, by putting programs at a function that nobody calls and taking them back.
pub fn probe() -> Result<(), FunctionsError> {
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        let why = "it has no type information (/sys/kernel/btf/vmlinux)";
        return Err(FunctionsError::Unsupported(why.into()));
    }
    let mut why = String::from("it has none of the functions that this is tried with");
    for name in HARMLESS {
        let traced = Traced::load(name, 0, None).and_then(|mut traced| traced.attach());
        match traced {
            Ok(()) => return Ok(()),
            Err(super::programs::Failure::NoSuchFunction) => {}
            Err(failure) => {
                why = failure.to_string();
                break;
            }
        }
    }
    Err(FunctionsError::Unsupported(why))
}
