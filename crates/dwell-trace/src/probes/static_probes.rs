//! `provider1234:module:function:name`: the places that a program's author marked, as `sys/sdt.h` and `dwell/sdt.h`
//! note them. A site is a `nop` of one byte, which the kernel carries out itself.
use super::process::{Module, Process};
use super::{At, Code, Probe, description_error, matches, name, place};
use crate::error::TraceError;
use dwell_elf::ElfFile;
use dwell_elf::static_probes::{Argument, ArgumentKind, Place, Register, StaticProbe};
use dwell_script::codegen::{Operand, OperandPlace};
use dwell_script::typed::ProbePattern;
use dwell_symbols::demangle;

pub(super) fn find(
    pattern: &ProbePattern,
    provider: &str,
    process: &Process,
) -> Result<Vec<Probe>, TraceError> {
    let mut found = Vec::new();
    let meant = |module: &&Module| module.is_meant(&pattern.module);
    for module in process.modules.iter().filter(meant) {
        let Some(elf) = module.elf() else { continue };
        let all = elf.static_probes().probes.into_iter();
        let wanted: Vec<StaticProbe> = all
            .filter(|probe| matches(provider, &probe.provider))
            .filter(|probe| {
                [&probe.name, &probe.d_name()]
                    .iter()
                    .any(|n| matches(&pattern.name, n))
            })
            .collect();
        if wanted.is_empty() {
            continue;
        }
        let functions = Functions::of(&elf);
        for probe in wanted {
            let function = functions.around(probe.address);
            if !matches(&pattern.function, &function) {
                continue;
            }
            let Some(at) = at(&probe, &elf, module, process.pid) else {
                let why = "its site cannot be probed: it is a nop of five bytes, which kernels up to 2026 make a \
                           call of that overwrites the program's data; build it with dwell/sdt.h";
                return Err(description_error(pattern, why));
            };
            let provider = format!("{}{}", probe.provider, process.pid);
            found.push(Probe {
                name: name(&provider, &module.name, &function, &probe.d_name()),
                at,
            });
        }
    }
    Ok(found)
}

/// Where a probe is; none where no breakpoint is safe.
fn at(probe: &StaticProbe, elf: &ElfFile<'_>, module: &Module, pid: u32) -> Option<At> {
    let offset = elf.file_offset(probe.address)?;
    if !place::is_safe(elf.bytes_from(probe.address)?) {
        return None;
    }
    let bias = module.bias(elf);
    let operands = probe.arguments.iter().map(|argument| match argument {
        Ok(argument) => operand(argument, bias),
        Err(error) => Operand {
            size: 8,
            signed: false,
            place: OperandPlace::Unreadable(error.to_string().into()),
        },
    });
    Some(At::Code {
        file: module.reached_by.clone(),
        pid,
        offset,
        what: Code::Static {
            operands: operands.collect(),
            semaphore: probe.semaphore.and_then(|at| elf.file_offset(at)),
        },
    })
}

fn operand(argument: &Argument, bias: Option<u64>) -> Operand {
    let place = match argument.place {
        Place::Constant(value) => OperandPlace::Constant(value),
        Place::Register(register) => OperandPlace::Register {
            index: index(register),
            shift: 0,
        },
        Place::HighByte(register) => OperandPlace::Register {
            index: index(register),
            shift: 8,
        },
        Place::Vector(number) => OperandPlace::Unreadable(
            format!("it is in the vector register %xmm{number}, which the kernel does not show")
                .into(),
        ),
        Place::Memory {
            base,
            index: scaled,
            displacement,
        } => OperandPlace::Memory {
            base: base.map(index),
            index: scaled.map(|(register, scale)| (index(register), scale)),
            displacement,
        },
        Place::Variable {
            stated_address,
            index: scaled,
        } => match bias {
            Some(bias) => OperandPlace::Memory {
                base: None,
                index: scaled.map(|(register, scale)| (index(register), scale)),
                displacement: stated_address.wrapping_add(bias) as i64,
            },
            None => {
                OperandPlace::Unreadable("it is a variable of a program that has not begun".into())
            }
        },
    };
    Operand {
        size: argument.size,
        signed: argument.kind == ArgumentKind::Signed,
        place,
    }
}

/// The index in `uregs[]`, which is in the order of the kernel's `struct pt_regs`.
fn index(register: Register) -> u8 {
    match register {
        Register::R15 => 0,
        Register::R14 => 1,
        Register::R13 => 2,
        Register::R12 => 3,
        Register::Rbp => 4,
        Register::Rbx => 5,
        Register::R11 => 6,
        Register::R10 => 7,
        Register::R9 => 8,
        Register::R8 => 9,
        Register::Rax => 10,
        Register::Rcx => 11,
        Register::Rdx => 12,
        Register::Rsi => 13,
        Register::Rdi => 14,
        Register::Rsp => 19,
    }
}

/// A file's functions: address, size and name, by address.
struct Functions(Vec<(u64, u64, String)>);

impl Functions {
    fn of(elf: &ElfFile<'_>) -> Functions {
        let named = elf.symbols().filter(|s| !s.indirect).filter_map(|s| {
            let name = std::str::from_utf8(s.name).ok()?;
            Some((s.address, s.size, demangle(name).to_string()))
        });
        let mut all: Vec<_> = named.collect();
        all.sort();
        Functions(all)
    }

    /// The function that code belongs to; empty in a stripped file.
    fn around(&self, address: u64) -> String {
        let after = self.0.partition_point(|(start, ..)| *start <= address);
        let candidate = after.checked_sub(1).map(|at| &self.0[at]);
        let inside = candidate.filter(|(start, size, _)| address - start < (*size).max(1));
        inside.map_or(String::new(), |(.., name)| name.clone())
    }
}
