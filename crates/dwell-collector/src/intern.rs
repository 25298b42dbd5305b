//! Frames and stacks get a number each, once.
use dwell_recording::rows::{FrameRow, StackRow};
use hashbrown::{Equivalent, HashMap};

/// One place in code, before it has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A stated address in a module.
    User {
        /// `modules::ModuleId`.
        module: u32,
        /// Stated address.
        address: u64,
    },
    /// An actual address in the kernel.
    Kernel(u64),
    /// An actual address in memory without a file.
    Jit {
        /// `processes.process`.
        process: u32,
        /// Actual address, or the word of a frame of a JVM's code.
        address: u64,
        /// What tells a method that is interpreted from others that were there.
        generation: u32,
    },
    /// Code that dwell has put there.
    Own {
        /// `processes.process`.
        process: u32,
    },
    /// An actual address in no known mapping.
    Unknown {
        /// `processes.process`.
        process: u32,
        /// Actual address.
        address: u64,
    },
}

/// Finds a stack without a copy of its frames.
#[derive(Hash)]
struct StackKey<'a>(&'a [u32], &'static str);

impl Equivalent<(Box<[u32]>, &'static str)> for StackKey<'_> {
    fn equivalent(&self, key: &(Box<[u32]>, &'static str)) -> bool {
        *self.0 == *key.0 && self.1 == key.1
    }
}

/// Numbers for frames and stacks, and the rows that are not written yet.
#[derive(Default)]
pub struct Interner {
    frames: HashMap<Place, u32>,
    stacks: HashMap<(Box<[u32]>, &'static str), u32>,
    places: Vec<Place>,
    /// Stacks that are new since they were last taken.
    pub new_stacks: Vec<StackRow>,
    written_frames: usize,
}

impl Interner {
    /// The number of a place.
    pub fn frame(&mut self, place: Place) -> u32 {
        *self.frames.entry(place).or_insert_with(|| {
            self.places.push(place);
            self.places.len() as u32 - 1
        })
    }

    /// The number of a stack: frames outermost first, and why its user part ends.
    pub fn stack(&mut self, frames: &[u32], end: &'static str) -> u32 {
        if let Some(&known) = self.stacks.get(&StackKey(frames, end)) {
            return known;
        }
        let stack = self.stacks.len() as u32;
        self.stacks.insert((frames.into(), end), stack);
        self.new_stacks.push(StackRow {
            stack,
            frames: frames.to_vec(),
            end: end.into(),
        });
        stack
    }

    /// Every stack: its number, and its frames outermost first.
    pub fn stacks(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.stacks.iter().map(|((frames, _), id)| (*id, &**frames))
    }

    /// Every place in the order of its frame number.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Rows of the frames that are new since the last call.
    pub fn take_frames(&mut self, mut row: impl FnMut(Place) -> FrameRow) -> Vec<FrameRow> {
        let first = std::mem::replace(&mut self.written_frames, self.places.len());
        let rows = self.places[first..].iter().enumerate();
        rows.map(|(i, &place)| FrameRow {
            frame: (first + i) as u32,
            ..row(place)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_stack_same_number() {
        let mut interner = Interner::default();
        let a = interner.frame(Place::Kernel(1));
        let b = interner.frame(Place::Kernel(2));
        assert_eq!(interner.frame(Place::Kernel(1)), a);
        let s = interner.stack(&[a, b], "complete");
        assert_eq!(interner.stack(&[a, b], "complete"), s);
        assert_ne!(interner.stack(&[a, b], "loop"), s);
        assert_eq!(interner.new_stacks.len(), 2);
        assert_eq!(interner.take_frames(|_| FrameRow::default()).len(), 2);
        assert!(interner.take_frames(|_| FrameRow::default()).is_empty());
    }
}
