//! Java code that has a name: it may go, and other code come to where it was.
use crate::machine;
use dwell_abi::events::interpreted;
use dwell_hotspot::{Blob, Jvm, Memory};
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// How often it is looked at all the same, ns: compiled code also goes without a garbage collection.
const EVERY_NS: u64 = 1_000_000_000;
/// One part in so many of our time at most goes into that.
const SHARE: u64 = 100;

#[derive(Clone)]
struct Compiled {
    end: u64,
    id: u32,
    generation: u32,
}

#[derive(Clone)]
struct Interpreted {
    class: u64,
    generation: u32,
}

/// See the module's text.
#[derive(Clone, Default)]
pub struct KnownCode {
    /// By the address of their blobs.
    compiled: BTreeMap<u64, Compiled>,
    /// By the address of their methods.
    interpreted: HashMap<u64, Interpreted>,
    /// Their classes.
    classes: HashMap<u64, u64>,
    /// How often some of it was replaced.
    generation: u32,
    collections: Option<u32>,
    checked_at: u64,
    not_before: u64,
}

impl KnownCode {
    /// A compiled method gets its name.
    pub fn add_compiled(&mut self, jvm: &Jvm, memory: &impl Memory, blob: &Blob) {
        if let Some(id) = jvm.compile_id(memory, blob.address) {
            let compiled = Compiled {
                end: blob.end,
                id,
                generation: self.generation,
            };
            self.compiled.entry(blob.address).or_insert(compiled);
        }
    }

    /// An interpreted method gets its name.
    pub fn add_interpreted(&mut self, jvm: &Jvm, memory: &impl Memory, method: u64) {
        if let Some(class) = jvm.class_of(memory, method)
            && let Some(id) = jvm.class_id(memory, class)
        {
            self.classes.entry(class).or_insert(id);
            self.interpreted.entry(method).or_insert(Interpreted {
                class,
                generation: self.generation,
            });
        }
    }

    /// What tells code at an actual address, or a method by its word, from others that were there.
    pub fn generation(&self, address: u64) -> u32 {
        let known = match interpreted(address) {
            Some((method, _)) => self.interpreted.get(&method).map(|known| known.generation),
            None => {
                let below = self.compiled.range(..=address).next_back();
                let known = below.filter(|(_, known)| address < known.end);
                known.map(|(_, known)| known.generation)
            }
        };
        known.unwrap_or(self.generation)
    }

    /// Forgets what is not there any more. True when there is any.
    pub fn check(&mut self, jvm: &Jvm, memory: &impl Memory, now: u64) -> bool {
        if now < self.not_before {
            return false;
        }
        let collections = jvm.collections(memory);
        if collections == self.collections && now < self.checked_at + EVERY_NS {
            return false;
        }
        self.collections = collections;
        self.checked_at = now;
        let known = self.compiled.len() + self.interpreted.len();
        self.compiled
            .retain(|blob, known| jvm.compile_id(memory, *blob) == Some(known.id));
        self.classes
            .retain(|class, id| jvm.class_id(memory, *class) == Some(*id));
        let classes = &self.classes;
        self.interpreted
            .retain(|_, known| classes.contains_key(&known.class));
        let is_changed = self.compiled.len() + self.interpreted.len() < known;
        self.generation += u32::from(is_changed);
        let done = machine::boottime_ns();
        self.not_before = done + SHARE * (done - now);
        is_changed
    }
}
