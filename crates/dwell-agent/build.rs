//! Compiles `src/blob.rs` for bare x86-64 (no SSE, position-independent), checks that the result is
//! nothing but code, and hands it to the crate as bytes with the offsets of its entry points.
use anyhow::{Context, Result, bail, ensure};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A target whose code has no SSE: the agent must not touch a target's vector registers.
const TARGET: &str = "x86_64-unknown-none";
/// Names that begin so are entry points.
const ENTRY_PREFIX: &str = "dwell_agent_";

fn main() -> Result<()> {
    println!("cargo:rerun-if-changed=src");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let elf = out.join("blob.elf");
    compile(&elf)?;
    let data = fs::read(&elf)?;
    let blob = Blob::read(&data)?;
    fs::write(out.join("blob.bin"), blob.code)?;
    fs::write(out.join("blob_entries.rs"), blob.constants()?)?;
    Ok(())
}

fn compile(elf: &Path) -> Result<()> {
    let rustc = env::var("RUSTC")?;
    let output = Command::new(&rustc)
        .args(["--edition=2024", "--crate-type=bin", "--target", TARGET])
        .args(["--crate-name=blob", "-Cpanic=abort", "-Copt-level=2"])
        .args(["-Crelocation-model=pie", "-Cforce-unwind-tables=no"])
        // A jump by a table would need a landing pad where the processor checks indirect branches.
        .arg("-Cllvm-args=-min-jump-table-entries=1000000")
        .args(["-Clink-arg=-Tsrc/blob.ld", "-Clink-arg=--build-id=none"])
        .args(["src/blob.rs", "-o"])
        .arg(elf)
        .output()
        .with_context(|| format!("running {rustc}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("can't find crate for `core`") {
        bail!("this Rust cannot compile for {TARGET}: rustup target add {TARGET}");
    }
    ensure!(
        output.status.success(),
        "src/blob.rs does not compile:\n{message}"
    );
    Ok(())
}

/// The linked agent.
struct Blob<'data> {
    code: &'data [u8],
    entries: Vec<(String, u64)>,
    /// Offset and length of those that say how much of them may be copied.
    copied: Vec<(u64, u64)>,
}

impl<'data> Blob<'data> {
    fn read(data: &'data [u8]) -> Result<Self> {
        let elf = ElfFile64::<object::LittleEndian>::parse(data)?;
        let mut code = None;
        for section in elf.sections() {
            if section.size() == 0 {
                continue;
            }
            match section.kind() {
                SectionKind::Text => code = Some((section.index(), section.data()?)),
                // There is nobody to relocate or to lay out data: all state is passed in.
                SectionKind::Data | SectionKind::UninitializedData | SectionKind::Tls => {
                    bail!("the agent has data of its own: {:?}", section.name())
                }
                _ => {}
            }
        }
        let (index, code) = code.context("the agent has no code")?;
        ensure!(
            elf.dynamic_relocations()
                .is_none_or(|mut r| r.next().is_none()),
            "the agent needs relocations"
        );
        let mut entries = Vec::new();
        let mut copied = Vec::new();
        for symbol in elf.symbols().filter(|s| s.section_index() == Some(index)) {
            let name = symbol.name()?;
            let Some(entry) = name.strip_prefix(ENTRY_PREFIX) else {
                continue;
            };
            entries.push((entry.to_uppercase(), symbol.address()));
            // What Rust compiles is a function by its type, with a size of its own.
            if symbol.kind() != SymbolKind::Text && symbol.size() > 0 {
                copied.push((symbol.address(), symbol.size()));
            }
        }
        ensure!(!entries.is_empty(), "the agent has no entry points");
        entries.sort();
        copied.sort_unstable();
        Ok(Blob {
            code,
            entries,
            copied,
        })
    }

    fn constants(&self) -> Result<String> {
        let mut text = String::new();
        for (name, offset) in &self.entries {
            writeln!(
                text,
                "/// Offset of `dwell_agent_{}` in [`CODE`], bytes.",
                name.to_lowercase()
            )?;
            writeln!(text, "pub const {name}_OFFSET: u64 = {offset};")?;
        }
        writeln!(
            text,
            "const COPIED: [(u64, u64); {}] = {:?};",
            self.copied.len(),
            self.copied
        )?;
        Ok(text)
    }
}
