//! Compiles the programs in `tests/programs`.
use std::path::{Path, PathBuf};
use std::process::Command;

/// What every program is compiled with: no frame pointers, so that only `.eh_frame` leads on.
pub const LEAN: &[&str] = &["-O2", "-fomit-frame-pointer"];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

fn output(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Whether a tool can be started at all.
pub fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

/// Compiles `source_name` to `name` and returns its path.
pub fn compile(tool: &str, source_name: &str, name: &str, flags: &[&str]) -> PathBuf {
    // Tests run at the same time and may share a program: each writes its own and renames it.
    let out = output(name);
    let own = output(&format!(
        "{name}.{}.{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let mut command = Command::new(tool);
    command
        .args(flags)
        .arg("-o")
        .arg(&own)
        .arg(source(source_name));
    if !tool.contains("rustc") {
        command.args(["-lm", "-pthread"]);
    }
    let result = command
        .output()
        .unwrap_or_else(|e| panic!("start {tool}: {e}"));
    assert!(
        result.status.success(),
        "{command:?} failed:\n{}",
        String::from_utf8_lossy(&result.stderr)
    );
    std::fs::rename(&own, &out).expect("rename");
    out
}

/// A C program with the machine's compiler.
pub fn c(source_name: &str, name: &str, flags: &[&str]) -> PathBuf {
    compile("cc", source_name, name, flags)
}

/// A C++ program with the machine's compiler.
pub fn cxx(source_name: &str, name: &str, flags: &[&str]) -> PathBuf {
    compile("c++", source_name, name, flags)
}
