//! Samples' addresses into stacks of frames, and frames into names.
use super::machine::{Machine, Process};
use super::modules::{Modules, from_hex};
use super::sample::{Sample, UserStack};
use crate::ImportError;
use crate::builder::{Builder, COMPLETE, Place};
use dwell_elf::step::{Frame, Module, Registers, Stepper};
use dwell_recording::rows::SymbolRow;
use dwell_symbols::{JitProcess, Symbol, Symbolizer};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Most frames of a stack that is unwound here.
const MAX_FRAMES: usize = 1536;
/// Numbers from here on in a chain of addresses say what the next ones are (`PERF_CONTEXT_*`).
const FIRST_MARK: u64 = 0u64.wrapping_sub(4095);
const KERNEL_MARK: u64 = 0u64.wrapping_sub(128);
const USER_MARK: u64 = 0u64.wrapping_sub(512);
/// Half of all addresses are the kernel's.
const KERNEL: u64 = 1 << 63;

/// perf's numbers of x86-64's registers, in DWARF's order.
const REGISTERS: [u32; Registers::COUNT] =
    [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8];

/// Where names of frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Origin {
    Module(usize),
    Jit(u32),
}

/// Frames and stacks of a file.
#[derive(Default)]
pub struct Stacks {
    places: FxHashMap<(u32, Option<usize>), (u32, Place)>,
    kernel: Option<(u32, Place)>,
    unnamed: BTreeMap<Origin, Vec<(u32, u64)>>,
    /// Names of the kernel's frames.
    kernel_names: FxHashMap<u32, String>,
    /// The kernel's frames of stacks.
    kernel_frames: FxHashMap<u32, Vec<u32>>,
    /// The kernel that recorded is the one whose names are here.
    pub names_kernel: bool,
    /// The file is of processors with other registers than those that are known here.
    pub other_registers: bool,
    /// Frames of the kernel without a name.
    pub nameless_kernel: bool,
}

/// What turns addresses into frames.
pub struct Context<'c> {
    /// Processes.
    pub machine: &'c mut Machine,
    /// Files.
    pub modules: &'c Modules,
    /// Names.
    pub symbolizer: &'c mut Symbolizer,
    /// The recording.
    pub builder: &'c mut Builder,
}

impl Stacks {
    /// The stack of a sample.
    pub fn of(
        &mut self,
        sample: &Sample<'_>,
        context: &mut Context<'_>,
    ) -> Result<u32, ImportError> {
        let (kernel, mut user) = chain(sample);
        let mut end = COMPLETE;
        if let Some(copy) = sample.user.as_ref().filter(|_| !self.other_registers) {
            (user, end) = unwind(copy, sample.pid, context);
        } else if sample.unwinds {
            (user, end) = (Vec::new(), "no_unwind_info");
        } else if user.is_empty() {
            end = "no_user_stack";
        }
        let process: &Process = context.machine.process(sample.pid);
        let is_code = |f: &Frame| process.find(looked_up(*f)).is_some();
        // Frame pointers that are none lead anywhere.
        if let Some(wild) = user.iter().skip(1).position(|f| !is_code(f)) {
            user.truncate(wild + 1);
            end = "bad_frame_pointer";
        }
        let mut frames = Vec::with_capacity(user.len() + kernel.len());
        for frame in user.iter().rev() {
            frames.push(self.user_frame(sample.pid, *frame, context)?);
        }
        let mut of_kernel = Vec::with_capacity(kernel.len());
        for frame in kernel.iter().rev() {
            of_kernel.push(self.kernel_frame(*frame, context)?);
        }
        frames.extend_from_slice(&of_kernel);
        let stack = context.builder.stack(frames, end)?;
        if !of_kernel.is_empty() {
            self.kernel_frames.entry(stack).or_insert(of_kernel);
        }
        Ok(stack)
    }

    /// Why a thread waits at a stack, and the system call.
    pub fn why(&self, stack: Option<u32>, disk_sleep: bool) -> (&'static str, String) {
        let frames = stack.and_then(|s| self.kernel_frames.get(&s));
        let names = frames.into_iter().flatten();
        let names = names.filter_map(|f| self.kernel_names.get(f));
        super::reasons::of(names.map(String::as_str), disk_sleep)
    }

    fn user_frame(
        &mut self,
        pid: u32,
        frame: Frame,
        context: &mut Context<'_>,
    ) -> Result<u32, ImportError> {
        let address = looked_up(frame);
        let found = context.machine.process(pid).find(address);
        let module = found.map(|(_, mapping)| mapping.module);
        let shared = module.is_some_and(|m| !context.modules.get(m).is_anonymous);
        let owner = if shared { 0 } else { pid };
        let (place_id, place) = match self.places.get(&(owner, module)) {
            Some(place) => place.clone(),
            None => {
                let place = new_place(pid, module, context);
                let place_id = context.builder.place(place.clone());
                self.places
                    .insert((owner, module), (place_id, place.clone()));
                (place_id, place)
            }
        };
        let stated = match found {
            Some((_, mapping)) if shared => address.wrapping_sub(mapping.bias),
            _ => address,
        };
        let (id, new) = context.builder.frame(place_id, &place, stated)?;
        if new {
            let origin = match module {
                Some(module) if shared => Some(Origin::Module(module)),
                Some(_) => Some(Origin::Jit(pid)),
                None => None,
            };
            if let Some(origin) = origin {
                self.unnamed.entry(origin).or_default().push((id, stated));
            }
        }
        Ok(id)
    }

    fn kernel_frame(
        &mut self,
        frame: Frame,
        context: &mut Context<'_>,
    ) -> Result<u32, ImportError> {
        let address = looked_up(frame);
        if self.kernel.is_none() {
            let place = Place {
                kind: "kernel",
                module: "[kernel]".into(),
                build_id: String::new(),
                process: None,
            };
            self.kernel = Some((context.builder.place(place.clone()), place));
        }
        let Some((place_id, place)) = &self.kernel else {
            unreachable!("it was just made");
        };
        let (id, new) = context.builder.frame(*place_id, place, address)?;
        if new && self.names_kernel {
            let chain = context.symbolizer.kernel(&[address]).pop();
            let chain = chain.unwrap_or_default();
            if let Some(symbol) = chain.first() {
                self.kernel_names.insert(id, symbol.function.clone());
            }
            context.builder.symbols(rows(id, chain))?;
        }
        self.nameless_kernel |= !self.names_kernel;
        Ok(id)
    }

    /// Names what has none yet.
    pub fn name(&mut self, context: &mut Context<'_>) -> Result<(), ImportError> {
        for (origin, frames) in std::mem::take(&mut self.unnamed) {
            let addresses: Vec<u64> = frames.iter().map(|f| f.1).collect();
            let names = match origin {
                Origin::Module(module) => {
                    let module = context.modules.get(module);
                    let build_id = from_hex(&module.build_id);
                    match module.named(&build_id) {
                        Some(named) => context.symbolizer.module(&named, &addresses),
                        None => continue,
                    }
                }
                Origin::Jit(pid) => {
                    let process = JitProcess {
                        pid,
                        ns_pid: pid,
                        root: None,
                        uid: None,
                        dumps: &[],
                    };
                    context.symbolizer.jit(&process, &addresses)
                }
            };
            for ((frame, _), chain) in frames.into_iter().zip(names) {
                context.builder.symbols(rows(frame, chain))?;
            }
        }
        Ok(())
    }
}

fn rows(frame: u32, chain: Vec<Symbol>) -> impl Iterator<Item = SymbolRow> {
    chain
        .into_iter()
        .zip(0..)
        .map(move |(symbol, depth)| SymbolRow {
            frame,
            depth,
            function: symbol.function,
            file: symbol.file,
            line: symbol.line,
            inlined: symbol.inlined,
        })
}

fn new_place(pid: u32, module: Option<usize>, context: &mut Context<'_>) -> Place {
    let module = module.map(|m| context.modules.get(m));
    let (kind, own) = match module {
        Some(module) if module.is_anonymous => ("jit", true),
        Some(_) => ("user", false),
        None => ("unknown", true),
    };
    Place {
        kind,
        module: module.map_or("", |m| &m.path).into(),
        build_id: module.map_or("", |m| &m.build_id).into(),
        process: own.then(|| context.machine.row(pid)),
    }
}

/// The address that tells the place: of a return address, that of the call.
fn looked_up(frame: Frame) -> u64 {
    frame.pc.wrapping_sub(u64::from(frame.is_return_address))
}

/// The addresses of a sample's chain, innermost first: the kernel's and the user's.
fn chain(sample: &Sample<'_>) -> (Vec<Frame>, Vec<Frame>) {
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    let mut mark = None;
    for pc in sample.addresses() {
        if pc >= FIRST_MARK {
            mark = Some(pc);
            continue;
        }
        let part = match mark {
            Some(KERNEL_MARK) => &mut kernel,
            Some(USER_MARK) => &mut user,
            None if pc >= KERNEL => &mut kernel,
            None => &mut user,
            // A hypervisor's, or a guest's.
            Some(_) => continue,
        };
        let is_return_address = !part.is_empty();
        part.push(Frame {
            pc,
            is_return_address,
        });
    }
    if kernel.is_empty() && user.is_empty() && sample.ip != 0 {
        let part = if sample.ip >= KERNEL {
            &mut kernel
        } else {
            &mut user
        };
        part.push(Frame {
            pc: sample.ip,
            is_return_address: false,
        });
    }
    (kernel, user)
}

/// Walks the copy of a stack.
fn unwind(copy: &UserStack<'_>, pid: u32, context: &mut Context<'_>) -> (Vec<Frame>, &'static str) {
    let mut registers = Registers::default();
    for (dwarf, number) in (0..).zip(REGISTERS) {
        registers.set(dwarf, copy.register(number));
    }
    let Some(base) = registers.get(Registers::RSP) else {
        return (Vec::new(), "no_unwind_info");
    };
    let process: &Process = context.machine.process(pid);
    let symbolizer: &Symbolizer = context.symbolizer;
    let modules = process.mappings().map(|(start, mapping)| Module {
        start,
        end: mapping.end,
        bias: mapping.bias,
        info: context.modules.get(mapping.module).unwind(symbolizer),
    });
    let mut frames = Vec::new();
    let mut read = |address: u64| {
        let at = usize::try_from(address.checked_sub(base)?).ok()?;
        let word = copy.stack.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    };
    let end = Stepper::new(modules.collect()).walk(&registers, &mut read, MAX_FRAMES, &mut frames);
    let end = match end.name() {
        // Only a copy was there to be read.
        "stack_unreadable" => "stack_copy_too_short",
        name => name,
    };
    (frames, end)
}
