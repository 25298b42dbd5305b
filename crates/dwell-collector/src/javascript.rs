//! JavaScript: which functions the V8 engine of a process executes.
use crate::address_space::AddressSpace;
use crate::kept_names::KeptNames;
use crate::modules::Modules;
use crate::processes::OfProcess;
use dwell_abi::events::{Engine, NO_BYTECODE};
use dwell_maps::{Kept, Memory};
use dwell_v8::{Function, NoV8, V8, is_wanted};
use std::rc::Rc;

/// How often an engine is looked for in vain: its program may not be loaded when it is mapped.
const TRIES: u32 = 10;

/// The engine of a process, as far as one is known.
#[derive(Default)]
pub struct JavaScript {
    v8: Option<Rc<V8>>,
    /// How often it is still looked for.
    tries: u32,
    /// Functions by the addresses of what they share and by their identities, also those that are gone.
    known: KeptNames<Function>,
}

impl JavaScript {
    /// That of a child that was just forked.
    pub fn of_child(&self) -> Self {
        JavaScript {
            v8: self.v8.clone(),
            ..JavaScript::default()
        }
    }

    /// Something of that name was mapped.
    pub fn wanted(&mut self) {
        if self.v8.is_none() {
            self.tries = TRIES;
        }
    }

    /// Whether it may be there by now.
    pub fn is_sought(&self) -> bool {
        self.tries > 0
    }

    /// Whether there is one.
    pub fn is_known(&self) -> bool {
        self.v8.is_some()
    }

    /// Looks for it. What the kernel side needs of it if it is new.
    pub fn look(&mut self, modules: &Modules, space: &AddressSpace, pid: u32) -> Option<Engine> {
        self.tries -= 1;
        let symbols = space.symbols(modules, is_engine, is_wanted);
        let memory = Kept::new(OfProcess(pid));
        let symbols = symbols.iter().map(|(name, at)| (name.as_str(), *at));
        match V8::read(&memory, symbols) {
            Ok(v8) => {
                self.tries = 0;
                let engine = v8.for_kernel();
                self.v8 = Some(Rc::new(v8));
                Some(engine)
            }
            Err(NoV8::NotYet) => None,
            Err(NoV8::Unknown) => {
                self.tries = 0;
                None
            }
        }
    }

    /// The function that shares what lies at an actual address, or did when it was looked at.
    pub fn function(
        &mut self,
        memory: &impl Memory,
        (shared, identity): (u64, u32),
    ) -> Option<&Function> {
        let key = (shared, identity);
        if self.known.get(key).is_none() {
            let v8 = self.v8.as_ref()?;
            if v8.identity(memory, shared)? != identity {
                return None;
            }
            let function = v8.function(memory, shared)?;
            let bytes = function.bytes();
            self.known.add(key, function, bytes);
        }
        self.known.get(key)
    }

    /// The function that a word of a script's stack tells of: the lowest bits of its identity are in its place.
    pub fn function_by_place(
        &mut self,
        memory: &impl Memory,
        shared: u64,
        place: u32,
    ) -> Option<&Function> {
        let identity = self.identity(memory, shared)?;
        (identity & NO_BYTECODE == place).then(|| self.function(memory, (shared, identity)))?
    }

    /// What tells the function at an actual address now from others that were there.
    pub fn identity(&self, memory: &impl Memory, shared: u64) -> Option<u32> {
        self.v8.as_ref()?.identity(memory, shared)
    }

    /// What is shared by all functions like that which a frame executes, by two words of it: see [`V8::executed`].
    pub fn executed(&self, memory: &impl Memory, context: u64, function: u64) -> Option<u64> {
        self.v8.as_ref()?.executed(memory, context, function)
    }
}

/// Whether a path may be that of a program with an engine that states itself: `node`, `nodejs`, `libnode.so.108`.
pub fn is_engine(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("node") || name.starts_with("libnode")
}
