//! Surroundings in which a merged program would not be what the stock one is.
use std::fs;

/// Variables that make the loader take other libraries, or other functions, than were merged.
const VARIABLES: [&str; 3] = ["LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH"];

/// Why nothing runs boosted here, if so.
pub fn obstacle() -> Option<String> {
    let set = |name: &&&str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    if let Some(name) = VARIABLES.iter().find(set) {
        return Some(format!("{name} is set"));
    }
    // SAFETY: getauxval only reads what the kernel gave the process.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return Some("dwell itself runs with gained rights (AT_SECURE)".into());
    }
    let preloaded = fs::read_to_string("/etc/ld.so.preload").unwrap_or_default();
    let names_some = |line: &str| !line.split('#').next().unwrap_or_default().trim().is_empty();
    preloaded
        .lines()
        .any(names_some)
        .then(|| "/etc/ld.so.preload names libraries".into())
}
