//! Python: what the CPython of a process executes.
use crate::address_space::AddressSpace;
use crate::error::CollectError;
use crate::executed;
use crate::kept_names::KeptNames;
use crate::machine;
use crate::modules::Modules;
use crate::processes::OfProcess;
use crate::unwind_maps::{Number, UnwindMaps};
use dwell_abi::events::{CodeRecord, NO_BYTECODE};
use dwell_maps::{Kept, Memory};
use dwell_python::{Code, Group, NoPython, SYMBOLS, Source};
use hashbrown::HashMap;
use std::rc::Rc;

/// How often an interpreter is looked for in vain: it begins some ms after its library is mapped, and that of a process that
/// stands still may never do.
const TRIES: u32 = 1000;
/// How often what threads execute gets its names, ns: the longest waits may be over when the process is. Where there is
/// nothing new, half as often each time.
const NAME_EVERY_NS: u64 = 50_000_000;
const NAME_SELDOM_NS: u64 = 400_000_000;
/// One part in so many of our time at most goes into that.
const SHARE: u64 = 200;

/// The Python of a process, as far as one is known.
#[derive(Default)]
pub struct Python {
    python: Option<Rc<dwell_python::Python>>,
    /// Its number for the kernel side; children have it, too.
    number: Option<Rc<Number>>,
    /// See [`Python::executing`].
    executing: Rc<executed::Code>,
    /// How often it is still looked for.
    tries: u32,
    /// Its symbols' actual addresses, while it is looked for.
    symbols: HashMap<String, u64>,
    /// Code by its address and its identity, also what is gone.
    known: KeptNames<Source>,
    /// When what threads execute gets its names again, ns of CLOCK_BOOTTIME, and how long after the last time.
    name_at: u64,
    name_every: u64,
}

impl Python {
    /// That of a child that was just forked.
    pub fn of_child(&self) -> Self {
        Python {
            python: self.python.clone(),
            number: self.number.clone(),
            executing: self.executing.clone(),
            ..Python::default()
        }
    }

    /// The process is over; the names stay for some time ([`Python::forget`]).
    pub fn end(&mut self) {
        self.tries = 0;
        self.number = None;
    }

    /// Something of that name was mapped.
    pub fn wanted(&mut self) {
        if self.number.is_none() {
            self.tries = TRIES;
            self.symbols.clear();
        }
    }

    /// Whether it may be there by now.
    pub fn is_sought(&self) -> bool {
        self.tries > 0
    }

    /// Whether there is one.
    pub fn is_known(&self) -> bool {
        self.python.is_some()
    }

    /// The code of the function that executes Python, where nothing else tells which frames of it execute what; else nothing.
    pub fn executing(&self) -> &executed::Code {
        &self.executing
    }

    /// Looks for it, and tells the kernel side. Its number there if it is new.
    pub fn look(
        &mut self,
        maps: &UnwindMaps,
        modules: &Modules,
        space: &AddressSpace,
        pid: u32,
    ) -> Result<Option<u32>, CollectError> {
        self.tries -= 1;
        if self.symbols.is_empty() {
            self.symbols = space.symbols(modules, is_python, |name| SYMBOLS.contains(&name));
        }
        // It is compared word by word.
        let memory = Kept::new(OfProcess(pid));
        let read = dwell_python::Python::read(&memory, |name| self.symbols.get(name).copied());
        let python = match read {
            Ok(python) => python,
            Err(NoPython::NotYet) => return Ok(None),
            Err(NoPython::Unknown) => {
                self.tries = 0;
                return Ok(None);
            }
        };
        self.tries = 0;
        if let Some(function) = python.executing() {
            self.executing = space.parts_of_function(modules, function).into();
            if self.executing.is_empty() {
                return Ok(None);
            }
        }
        let number = maps.interpreters.add(&python.for_kernel().to_bytes())?;
        self.number = number.map(Rc::new);
        self.python = Some(Rc::new(python));
        Ok(self.number.as_ref().map(|number| number.get()))
    }

    /// The code with an identity that is at an actual address, or was when it was looked at, and one of its instructions.
    pub fn code(
        &mut self,
        memory: &impl Memory,
        (code, identity): (u64, u32),
        instruction: Option<u32>,
    ) -> Option<Code> {
        if self.is_new(code, identity) {
            self.know(memory, code);
        }
        Some(self.known.get((code, identity))?.at(instruction))
    }

    /// The code that a word of a script's stack tells of: the lowest bits of its identity are in its place.
    pub fn code_by_place(&mut self, memory: &impl Memory, code: u64, place: u32) -> Option<Code> {
        let identity = self.identity(memory, code)?;
        (identity & NO_BYTECODE == place).then(|| self.code(memory, (code, identity), None))?
    }

    /// What tells the code at an actual address now from other code that was there.
    pub fn identity(&self, memory: &impl Memory, code: u64) -> Option<u32> {
        self.python.as_ref()?.identity(memory, code)
    }

    /// The kernel side tells what code is called, which may be gone.
    pub fn told(&mut self, record: &CodeRecord) {
        let key = (record.code, record.identity);
        let function = record.function.get(..record.function_bytes as usize);
        let file = record.file.get(..record.file_bytes as usize);
        if self.known.get(key).is_none()
            && let Some(source) = function
                .zip(file)
                .and_then(|(f, file)| Source::told(f, file))
        {
            self.add(key, source);
        }
    }

    /// Whether all that tells of code is still to be read.
    fn is_new(&self, code: u64, identity: u32) -> bool {
        let known = self.known.get((code, identity));
        known.is_none_or(Source::is_told)
    }

    /// Reads what the code at an actual address is called. True when that was not known.
    fn know(&mut self, memory: &impl Memory, code: u64) -> bool {
        let read = self.python.as_ref().and_then(|python| {
            let identity = python.identity(memory, code)?;
            self.is_new(code, identity)
                .then(|| Some((identity, python.source(memory, code)?)))?
        });
        let Some((identity, source)) = read else {
            return false;
        };
        self.add((code, identity), source);
        true
    }

    fn add(&mut self, key: (u64, u32), source: Source) {
        let bytes = source.bytes();
        self.known.add(key, source, bytes);
    }

    /// What a thread executes that stands still, innermost first. It is known by its number as its own process has it.
    pub fn executed_by(&self, memory: &impl Memory, thread: u32) -> Vec<Group> {
        let python = self.python.as_ref();
        python.map_or_else(Vec::new, |python| python.executed_by(memory, thread))
    }

    /// Names what threads execute.
    pub fn check(&mut self, pid: u32, now: u64) {
        if let Some(python) = self.python.clone()
            && now >= self.name_at
        {
            let memory = Kept::new(OfProcess(pid));
            let mut is_new = false;
            for code in python.executed(&memory) {
                is_new |= self.know(&memory, code);
            }
            self.name_every = match is_new {
                true => NAME_EVERY_NS,
                false => (2 * self.name_every).clamp(NAME_EVERY_NS, NAME_SELDOM_NS),
            };
            let done = machine::boottime_ns();
            let took = done.saturating_sub(now);
            self.name_at = done + self.name_every.max(SHARE * took);
        }
    }
}

/// Whether a path may be that of an interpreter: `python3.13`, `libpython3.13.so.1.0`.
pub fn is_python(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("python") || name.starts_with("libpython")
}
