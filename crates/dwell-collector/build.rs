//! Compiles the eBPF programs with clang, against the header generated from `dwell-abi`.
use anyhow::{Context, Result, bail};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources of `src/bpf`, each an object of its own.
const OBJECTS: [&str; 7] = [
    "dwell",
    "memory",
    "functions",
    "spinlocks",
    "ustack",
    "crashes",
    "floor",
];

/// clang releases to look for, newest first; older ones lack `__builtin` forms the programs use.
const CLANGS: [&str; 7] = [
    "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang",
];

fn main() -> Result<()> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let libbpf_headers =
        env::var("DEP_BPF_INCLUDE").context("libbpf-sys did not export its headers")?;
    std::fs::write(out.join("abi.h"), dwell_abi::c_header())?;
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-env-changed=DWELL_CLANG");

    let clang = find_clang()?;
    for name in OBJECTS {
        compile(&clang, name, &out, &libbpf_headers)?;
    }
    Ok(())
}

fn compile(clang: &str, name: &str, out: &Path, libbpf_headers: &str) -> Result<()> {
    let source = format!("src/bpf/{name}.bpf.c");
    let object = out.join(format!("{name}.bpf.o"));
    let status = Command::new(clang)
        .args([
            "-g",
            "-O2",
            "-target",
            "bpf",
            "-mcpu=v3",
            "-D__TARGET_ARCH_x86",
            "-Wall",
            "-Werror",
        ])
        .args(["-Wno-missing-declarations", "-Wno-unused-function"])
        .arg(format!("-I{libbpf_headers}"))
        .arg(format!("-I{}", out.display()))
        .args(["-c", &source, "-o"])
        .arg(&object)
        .status()
        .with_context(|| format!("running {clang}"))?;
    if !status.success() {
        bail!("{clang} could not compile {source}");
    }
    strip(clang, &object);
    Ok(())
}

fn find_clang() -> Result<String> {
    let named = env::var("DWELL_CLANG").ok();
    let found = named.iter().map(String::as_str).chain(CLANGS).find(|c| {
        Command::new(c)
            .arg("--version")
            .output()
            .is_ok_and(|o| o.status.success())
    });
    found.map(str::to_owned).context("no clang found: install clang 16 or newer (apt-get install clang-19), or name one in DWELL_CLANG")
}

/// Drops DWARF (BTF stays): the object is embedded. Without llvm-strip it is only larger.
fn strip(clang: &str, object: &Path) {
    let tool = clang.replace("clang", "llvm-strip");
    let _ = Command::new(tool).arg("-g").arg(object).status();
}
