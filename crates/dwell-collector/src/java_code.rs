//! Java code that has a name: it may go, and other code come to where it was.
use crate::machine;
use dwell_abi::events::interpreted;
use dwell_hotspot::{Blob, BlobKind, Jvm, Kept, Memory};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;

/// How often it is looked at all the same, ns: compiled code also goes without a garbage collection.
const EVERY_NS: u64 = 1_000_000_000;
/// One part in so many of our time at most goes into that.
const SHARE: u64 = 100;

struct Compiled {
    end: u64,
    /// None for what stays: HotSpot's own stubs.
    id: Option<u32>,
    generation: u32,
}

struct Interpreted {
    class: u64,
    generation: u32,
}

/// See the module's text.
#[derive(Default)]
pub struct KnownCode {
    /// By the address of their blobs.
    compiled: BTreeMap<u64, Compiled>,
    /// By the address of their methods.
    interpreted: HashMap<u64, Interpreted>,
    /// Their classes' names: all else may be the same of the next one.
    classes: HashMap<u64, String>,
    /// How often some of it was replaced.
    generation: u32,
    epoch: [Option<u64>; 2],
    checked_at: u64,
    not_before: u64,
}

impl KnownCode {
    /// Code gets its name.
    pub fn add_compiled(&mut self, jvm: &Jvm, memory: &impl Memory, blob: &Blob) {
        let id = match blob.kind {
            BlobKind::Method(_) => jvm.compile_id(memory, blob.address),
            BlobKind::Stub(_) => None,
        };
        let compiled = Compiled {
            end: blob.end,
            id,
            generation: self.generation,
        };
        self.compiled.entry(blob.address).or_insert(compiled);
    }

    /// An interpreted method gets its name.
    pub fn add_interpreted(&mut self, jvm: &Jvm, memory: &impl Memory, method: u64) {
        if let Some(class) = jvm.class_of(memory, method)
            && let Some(name) = jvm.class_name(memory, class)
        {
            self.classes.entry(class).or_insert(name);
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
        let epoch = jvm.epoch(memory);
        if epoch == self.epoch && now < self.checked_at + EVERY_NS {
            return false;
        }
        self.epoch = epoch;
        self.checked_at = now;
        let is_changed = self.forget_what_is_gone(jvm, memory);
        self.generation += u32::from(is_changed);
        let done = machine::boottime_ns();
        self.not_before = done + SHARE * (done - now);
        is_changed
    }

    fn forget_what_is_gone(&mut self, jvm: &Jvm, memory: &impl Memory) -> bool {
        let kept = &Kept::new(memory);
        let compiled = self
            .compiled
            .iter()
            .filter(|(blob, known)| known.id.is_some() && jvm.compile_id(kept, **blob) != known.id);
        let compiled: Vec<u64> = compiled.map(|(blob, _)| *blob).collect();
        let classes = self.classes.iter();
        let classes =
            classes.filter(|(class, name)| jvm.class_name(kept, **class).as_ref() != Some(*name));
        let classes: HashSet<u64> = classes.map(|(class, _)| *class).collect();
        // Not where all is gone: what a process had when it ended stays as it was.
        if !jvm.is_there(memory) || compiled.is_empty() && classes.is_empty() {
            return false;
        }
        for blob in compiled {
            self.compiled.remove(&blob);
        }
        self.classes.retain(|class, _| !classes.contains(class));
        self.interpreted
            .retain(|_, known| !classes.contains(&known.class));
        true
    }
}
