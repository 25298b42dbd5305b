//! `pid1234:module:function:entry`, `return`, and distances.
use super::glob::is_pattern;
use super::process::{Module, Process};
use super::{At, Code, Probe, matches, name, place};
use crate::error::TraceError;
use dwell_elf::ElfFile;
use dwell_script::typed::ProbePattern;
use dwell_symbols::demangle;
use std::collections::HashSet;

/// Bytes of a function whose size its file does not tell, as far as they matter here.
const UNKNOWN_SIZE: usize = 64;

pub(super) fn find(pattern: &ProbePattern, process: &Process) -> Result<Vec<Probe>, TraceError> {
    let mut found = Vec::new();
    for module in process
        .modules
        .iter()
        .filter(|m| m.is_meant(&pattern.module))
    {
        if let Some(elf) = module.elf() {
            in_module(pattern, process.pid, module, &elf, &mut found);
        }
    }
    Ok(found)
}

fn in_module(
    pattern: &ProbePattern,
    pid: u32,
    module: &Module,
    elf: &ElfFile<'_>,
    found: &mut Vec<Probe>,
) {
    let mut seen = HashSet::new();
    for symbol in elf.symbols().filter(|s| !s.indirect) {
        let Ok(raw) = std::str::from_utf8(symbol.name) else {
            continue;
        };
        let Some(shown) = shown_name(&pattern.function, raw) else {
            continue;
        };
        if !seen.insert(symbol.address) {
            continue;
        }
        let (Some(offset), Some(code)) = (
            elf.file_offset(symbol.address),
            elf.bytes_from(symbol.address),
        ) else {
            continue;
        };
        let size = if symbol.size == 0 {
            UNKNOWN_SIZE
        } else {
            symbol.size as usize
        };
        let function = Function {
            offset,
            code: &code[..size.min(code.len())],
        };
        for (text, distance, what) in function.places(&pattern.name) {
            let provider = format!("pid{pid}");
            let file = module.reached_by.clone();
            found.push(Probe {
                name: name(&provider, &module.name, &shown, &text),
                at: At::Code {
                    file,
                    pid,
                    offset: function.offset + distance,
                    what,
                },
            });
        }
    }
}

/// The name under which a function is meant: its own, or the demangled one with or without its arguments.
fn shown_name(pattern: &str, raw: &str) -> Option<String> {
    if matches(pattern, raw) {
        return Some(raw.to_owned());
    }
    if !raw.starts_with("_Z") && !raw.starts_with("_R") {
        return None;
    }
    let full = demangle(raw);
    let plain = full.split('(').next().unwrap_or_default();
    (matches(pattern, &full) || matches(pattern, plain)).then(|| full.clone())
}

struct Function<'a> {
    offset: u64,
    code: &'a [u8],
}

impl Function<'_> {
    /// The places that a probe's name means, with the names they have.
    fn places(&self, pattern: &str) -> Vec<(String, u64, Code)> {
        let mut places = Vec::new();
        if let Some(entry) = place::entry(self.code) {
            for (text, what) in [("entry", Code::Entry), ("return", Code::Return)] {
                if matches(pattern, text) {
                    places.push((text.to_owned(), entry, what));
                }
            }
        }
        if !is_pattern(pattern)
            && let Ok(distance) = u64::from_str_radix(pattern.trim_start_matches("0x"), 16)
            && place::is_instruction(self.code, distance)
            && place::is_safe(&self.code[distance as usize..])
        {
            places.push((pattern.to_owned(), distance, Code::Instruction));
        }
        places
    }
}
