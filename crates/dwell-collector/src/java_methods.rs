//! Java methods that are interpreted and have a name: their classes may go, and others come to where they were.
use crate::machine;
use dwell_hotspot::Jvm;
use dwell_maps::{Kept, Memory};
use hashbrown::{HashMap, HashSet};

/// How often they are looked at all the same, ns.
const EVERY_NS: u64 = 1_000_000_000;
/// One part in so many of our time at most goes into that.
const SHARE: u64 = 100;

struct Known {
    class: u64,
    generation: u32,
}

/// See the module's text.
#[derive(Default)]
pub struct KnownMethods {
    /// By address.
    methods: HashMap<u64, Known>,
    /// Their classes' names: all else may be the same of the next one.
    classes: HashMap<u64, String>,
    /// How often some of them went.
    generation: u32,
    /// The generation when that was last asked.
    told: u32,
    epoch: [Option<u64>; 2],
    checked_at: u64,
    not_before: u64,
}

impl KnownMethods {
    /// A method gets its name.
    pub fn add(&mut self, jvm: &Jvm, memory: &impl Memory, method: u64) {
        if let Some(class) = jvm.class_of(memory, method)
            && let Some(name) = jvm.class_name(memory, class)
        {
            if self.classes.get(&class).is_some_and(|known| *known != name) {
                self.forget(&HashSet::from([class]));
            }
            self.classes.entry(class).or_insert(name);
            self.methods.entry(method).or_insert(Known {
                class,
                generation: self.generation,
            });
        }
    }

    /// What tells a method from others that were at its address.
    pub fn generation(&self, method: u64) -> u32 {
        let known = self.methods.get(&method);
        known.map_or(self.generation, |known| known.generation)
    }

    /// Forgets what is not there any more. True when something was forgotten since the last call.
    pub fn check(&mut self, jvm: &Jvm, memory: &impl Memory, now: u64) -> bool {
        let epoch = jvm.epoch(memory);
        let is_due = epoch != self.epoch || now >= self.checked_at + EVERY_NS;
        if is_due && now >= self.not_before {
            self.epoch = epoch;
            self.checked_at = now;
            self.forget_what_is_gone(jvm, memory);
            let done = machine::boottime_ns();
            self.not_before = done + SHARE * done.saturating_sub(now);
        }
        std::mem::replace(&mut self.told, self.generation) != self.generation
    }

    fn forget_what_is_gone(&mut self, jvm: &Jvm, memory: &impl Memory) {
        let kept = &Kept::new(memory);
        let classes = self.classes.iter();
        let gone =
            classes.filter(|(class, name)| jvm.class_name(kept, **class).as_ref() != Some(*name));
        let gone: HashSet<u64> = gone.map(|(class, _)| *class).collect();
        // Not where all is gone: what a process had when it ended stays as it was.
        if !gone.is_empty() && jvm.is_there(memory) {
            self.forget(&gone);
        }
    }

    fn forget(&mut self, gone: &HashSet<u64>) {
        self.generation += 1;
        self.classes.retain(|class, _| !gone.contains(class));
        self.methods.retain(|_, known| !gone.contains(&known.class));
    }
}
