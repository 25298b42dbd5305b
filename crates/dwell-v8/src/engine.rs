//! A running engine.
use crate::function::Function;
use crate::layout::{Layout, NoV8, Stated};
use crate::lines::MOST_LINES;
use crate::objects::{Heap, object};
use dwell_abi::events::{Engine, identity_of};
use dwell_maps::Memory;
use std::cell::RefCell;
use std::collections::HashMap;

/// A running engine, as far as it is known.
#[derive(Debug)]
pub struct V8 {
    layout: Layout,
    /// Where lines end, by the addresses of scripts and of their sources.
    lines: RefCell<HashMap<(u64, u64), Vec<u32>>>,
}

/// The lines of so many scripts are kept, or so many lines.
const MOST_SCRIPTS: usize = 256;

impl V8 {
    /// Reads what it states of itself, by the names and actual addresses of its symbols ([`crate::is_wanted`]).
    pub fn read<'s>(
        memory: &'s impl Memory,
        symbols: impl IntoIterator<Item = (&'s str, u64)>,
    ) -> Result<Self, NoV8> {
        let symbols = symbols.into_iter().collect();
        Ok(V8 {
            layout: Layout::of(&Stated { memory, symbols })?,
            lines: RefCell::default(),
        })
    }

    /// What the kernel side needs of it.
    pub fn for_kernel(&self) -> Engine {
        let layout = &self.layout;
        // All are less than 1 << 16.
        Engine {
            shared_at: layout.function_shared as u32,
            instance_type_at: layout.instance_type as u32,
            shared_type: u32::from(layout.shared_type),
            data_at: layout.shared_data as u32,
            name_at: layout.shared_name as u32,
            script_at: layout.shared_script as u32,
        }
    }

    /// What is shared by all functions like that which a frame executes, by the two words below its frame pointer: its context,
    /// and the function. None where it is not of JavaScript, or the engine's own.
    pub fn executed(&self, memory: &impl Memory, context: u64, function: u64) -> Option<u64> {
        object(context)?;
        let heap = self.heap(memory);
        let shared = heap.object_at(object(function)?, self.layout.function_shared)?;
        self.identity(memory, shared)?;
        // Functions that are the engine's own have a number there.
        object(heap.field(shared, self.layout.shared_data)?)?;
        Some(shared)
    }

    /// What tells this function from others that lie there at other times.
    pub fn identity(&self, memory: &impl Memory, shared: u64) -> Option<u32> {
        let heap = self.heap(memory);
        if heap.type_of(shared)? != self.layout.shared_type {
            return None;
        }
        let words = [
            heap.field(shared, self.layout.shared_name)?,
            heap.field(shared, self.layout.shared_script)?,
        ];
        Some(identity_of(words))
    }

    /// What a function is called and where it is defined.
    pub fn function(&self, memory: &impl Memory, shared: u64) -> Option<Function> {
        let heap = self.heap(memory);
        let defined = heap.defined(shared)?;
        let line = defined.script.zip(defined.named.start);
        Some(Function {
            name: defined.named.name,
            file: defined.script.and_then(|script| heap.script_name(script)),
            line: line.and_then(|(script, place)| self.line(memory, script, place)),
        })
    }

    fn line(&self, memory: &impl Memory, script: u64, place: u32) -> Option<u32> {
        let heap = self.heap(memory);
        let source = heap.field(script, self.layout.script_source)?;
        let mut lines = self.lines.borrow_mut();
        let kept: usize = lines.values().map(Vec::len).sum();
        if lines.len() >= MOST_SCRIPTS || kept > MOST_LINES {
            lines.clear();
        }
        let counted = lines.entry((script, source)).or_default();
        heap.line(script, place, counted)
    }

    fn heap<'m, M: Memory>(&'m self, memory: &'m M) -> Heap<'m, M> {
        Heap {
            memory,
            layout: &self.layout,
        }
    }
}
