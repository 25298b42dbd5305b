//! What merging would do, without doing it.
use crate::closure::Closure;
use crate::layout::Layout;
use crate::module::Module;
use crate::selection::{Verdict, imports, is_of_glibc, select};
use crate::values::{Value, Values};
use crate::{Inputs, Options, Refusal};
use object::elf;
use std::collections::BTreeMap;

/// What merging would do to a program.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Path of the program.
    pub program: String,
    /// Whether it keeps being loaded at random addresses.
    pub randomized: bool,
    /// All libraries it needs, in the loader's order.
    pub libraries: Vec<Library>,
    /// Relocations of program and merged libraries by type, most frequent first.
    pub relocations: Vec<RelocationCount>,
    /// Symbol lookups of the loader for program and merged libraries.
    pub lookups: usize,
    /// Those that are left when merged: symbols of libraries that stay.
    pub lookups_left: usize,
    /// Slots of the program's and merged libraries' PLTs.
    pub plt_slots: usize,
    /// Those that lead into the merged file.
    pub plt_slots_inside: usize,
    /// What to know before it is used.
    pub notes: Vec<String>,
}

/// A library and what becomes of it.
#[derive(Clone, Debug)]
pub struct Library {
    /// The name it is needed by.
    pub name: String,
    /// Where it was found.
    pub path: String,
    /// Bytes of its file.
    pub size: u64,
    /// Whether it becomes part of the merged file.
    pub merged: bool,
    /// Why it stays; none when it is merged.
    pub reason: Option<String>,
}

/// How many relocations there are of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelocationCount {
    /// The ABI's name, without `R_X86_64_`.
    pub kind: String,
    /// How many.
    pub count: usize,
}

/// Tells what would be merged, or why nothing is.
pub fn plan(inputs: &Inputs, options: &Options) -> Result<Plan, Refusal> {
    let closure = Closure::of(inputs)?;
    let verdicts = select(&closure, options)?;
    let program = &closure.modules[0];
    let layout = Layout::of(&closure, &verdicts, options)
        .map_err(|why| Refusal::unsupported(&program.path, why))?;
    let values = Values::of(&closure, &layout)?;
    let counts = Counts::of(&closure, &layout, &values)?;
    let all = closure.modules.iter().zip(&verdicts).skip(1);
    let left = |v: &&Value| matches!(v, Value::Import { .. });
    Ok(Plan {
        program: program.path.clone(),
        randomized: !layout.fixed,
        libraries: all.map(|(m, v)| library(m, v)).collect(),
        relocations: counts.by_kind(),
        lookups: values.lookups_saved + values.places.values().filter(left).count(),
        lookups_left: values.imports.len(),
        plt_slots: counts.plt_slots,
        plt_slots_inside: counts.plt_slots_inside,
        notes: notes(&closure, &layout),
    })
}

fn library(module: &Module<'_>, verdict: &Verdict) -> Library {
    Library {
        name: module.name.clone(),
        path: module.path.clone(),
        size: module.elf.data().len() as u64,
        merged: verdict.is_merged(),
        reason: match verdict {
            Verdict::Merged => None,
            Verdict::Kept(reason) => Some(reason.clone()),
        },
    }
}

#[derive(Default)]
struct Counts {
    kinds: BTreeMap<u32, usize>,
    plt_slots: usize,
    plt_slots_inside: usize,
}

impl Counts {
    fn of(closure: &Closure<'_>, layout: &Layout, values: &Values) -> Result<Self, Refusal> {
        let mut counts = Counts::default();
        for (index, base) in layout.merged() {
            for r in closure.relocations(index)? {
                *counts.kinds.entry(r.kind).or_default() += 1;
                if r.kind == elf::R_X86_64_JUMP_SLOT.0 {
                    let value = values.places.get(&(r.stated.wrapping_add(base)));
                    counts.plt_slots += 1;
                    let inside = matches!(value, Some(Value::Image(_) | Value::Indirect(_)));
                    counts.plt_slots_inside += usize::from(inside);
                }
            }
        }
        Ok(counts)
    }

    fn by_kind(&self) -> Vec<RelocationCount> {
        let mut counts: Vec<_> = self
            .kinds
            .iter()
            .map(|(&kind, &count)| RelocationCount {
                kind: kind_name(kind),
                count,
            })
            .collect();
        counts.sort_by_key(|c| std::cmp::Reverse(c.count));
        counts
    }
}

fn kind_name(kind: u32) -> String {
    let name = match elf::RelocationType(kind) {
        elf::R_X86_64_NONE => "NONE",
        elf::R_X86_64_64 => "64",
        elf::R_X86_64_COPY => "COPY",
        elf::R_X86_64_GLOB_DAT => "GLOB_DAT",
        elf::R_X86_64_JUMP_SLOT => "JUMP_SLOT",
        elf::R_X86_64_RELATIVE => "RELATIVE",
        elf::R_X86_64_DTPMOD64 => "DTPMOD64",
        elf::R_X86_64_DTPOFF64 => "DTPOFF64",
        elf::R_X86_64_TPOFF64 => "TPOFF64",
        elf::R_X86_64_TLSDESC => "TLSDESC",
        elf::R_X86_64_IRELATIVE => "IRELATIVE",
        other => return other.0.to_string(),
    };
    name.to_owned()
}

fn notes(closure: &Closure<'_>, layout: &Layout) -> Vec<String> {
    let mut notes = Vec::new();
    let all = closure.modules.iter().zip(&layout.bases);
    let kept = all.filter(|(m, base)| base.is_none() && !is_of_glibc(m));
    for (module, _) in kept.filter(|(m, _)| imports(m, b"dlopen")) {
        notes.push(format!(
            "{} stays and can load plugins: one that needs a merged library gets a second copy of it",
            module.name
        ));
    }
    if layout
        .merged()
        .skip(1)
        .any(|(i, _)| imports(&closure.modules[i], b"dladdr"))
    {
        notes.push(
            "a merged library asks for its own path (dladdr): it is told the program's".into(),
        );
    }
    if closure.modules[0].is_fixed() {
        notes.push(
            "the program is linked to fixed addresses, and so is what is merged with it".into(),
        );
    } else if layout.fixed {
        notes.push("it has the same addresses in every process, until it is made anew".into());
    }
    notes
}
