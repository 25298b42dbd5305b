//! The two parts of a stack, user and kernel. Most come again and again: each is taken apart once.
use crate::intern::{Interner, Place};
use crate::kernel_marks::{KernelMarks, WakerStack};
use dwell_abi::unwind::StackEnd;
use hashbrown::{Equivalent, HashMap};
use std::hash::Hash;
use std::rc::Rc;

/// The user part of a stack.
pub struct UserPart {
    /// Frame numbers, outermost first.
    pub frames: Vec<u32>,
    /// Why it ends.
    pub end: StackEnd,
}

impl UserPart {
    /// There is none, and why.
    pub fn none(end: StackEnd) -> Rc<Self> {
        Rc::new(UserPart {
            frames: Vec::new(),
            end,
        })
    }
}

/// The kernel part of a stack.
pub struct KernelPart {
    /// Frame numbers, outermost first.
    pub frames: Vec<u32>,
    /// Whether it is inside the system call that begins another program.
    pub in_exec: bool,
    /// Whether its thread ends.
    pub in_exit: bool,
    /// Who it shows, as a waker's.
    pub who: WakerStack,
}

impl KernelPart {
    /// There is none.
    pub fn none() -> Rc<Self> {
        Rc::new(KernelPart {
            frames: Vec::new(),
            in_exec: false,
            in_exit: false,
            who: WakerStack::Task,
        })
    }
}

/// What of a kernel stack is the thread's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum View {
    /// All of it.
    Whole,
    /// What is below an interrupt.
    BelowInterrupt,
    /// What is below the scheduler, which it is switched from.
    BelowSwitching,
    /// What is below the waking that it does.
    BelowWaking,
}

/// What tells one user part from another: the process and the version of its mappings, and why the part ends.
pub type UserKey = (u32, u32, u8);

/// Parts by the bytes that they came as. It is bounded: what is dropped is taken apart anew.
#[derive(Default)]
pub struct Parts {
    user: HashMap<(UserKey, Box<[u8]>), Rc<UserPart>>,
    kernel: HashMap<(View, Box<[u8]>), Rc<KernelPart>>,
}

/// Finds a part without a copy of its bytes.
#[derive(Hash)]
struct Key<'a, K>(K, &'a [u8]);

impl<K: PartialEq> Equivalent<(K, Box<[u8]>)> for Key<'_, K> {
    fn equivalent(&self, key: &(K, Box<[u8]>)) -> bool {
        self.0 == key.0 && *self.1 == *key.1
    }
}

/// The value of a key, made when it is not known.
fn known<K: Copy + Eq + Hash, V>(
    map: &mut HashMap<(K, Box<[u8]>), Rc<V>>,
    key: K,
    bytes: &[u8],
    make: impl FnOnce() -> V,
) -> Rc<V> {
    const MOST: usize = 1 << 14; // of some 300 bytes each
    if let Some(value) = map.get(&Key(key, bytes)) {
        return value.clone();
    }
    if map.len() >= MOST {
        map.clear();
    }
    let value = Rc::new(make());
    map.insert((key, bytes.into()), value.clone());
    value
}

impl Parts {
    /// The user part that came as these bytes.
    pub fn user(
        &mut self,
        key: UserKey,
        bytes: &[u8],
        make: impl FnOnce() -> UserPart,
    ) -> Rc<UserPart> {
        known(&mut self.user, key, bytes, make)
    }

    /// The kernel part that came as these bytes: pcs, leaf first.
    pub fn kernel(
        &mut self,
        view: View,
        bytes: &[u8],
        marks: &KernelMarks,
        interner: &mut Interner,
    ) -> Rc<KernelPart> {
        known(&mut self.kernel, view, bytes, || {
            kernel_part(view, bytes, marks, interner)
        })
    }
}

fn kernel_part(
    view: View,
    bytes: &[u8],
    marks: &KernelMarks,
    interner: &mut Interner,
) -> KernelPart {
    let pcs: Vec<u64> = crate::records::words(bytes).collect();
    let (pcs, who) = match view {
        View::Whole => (pcs, WakerStack::Task),
        View::BelowInterrupt => (marks.without_interrupt(&pcs).to_vec(), WakerStack::Task),
        View::BelowSwitching => (marks.without_switching(&pcs), WakerStack::Task),
        View::BelowWaking => {
            let (pcs, who) = marks.waker(&pcs);
            (pcs.to_vec(), who)
        }
    };
    let address = |(i, &pc): (usize, &u64)| {
        let nearer = i.checked_sub(1).map(|nearer| pcs[nearer]);
        pc - u64::from(!marks.is_instruction(nearer))
    };
    let addresses = pcs.iter().enumerate().rev().map(address);
    KernelPart {
        frames: addresses
            .map(|address| interner.frame(Place::Kernel(address)))
            .collect(),
        in_exec: marks.in_exec(&pcs),
        in_exit: marks.in_exit(&pcs),
        who,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_made_once_for_the_same_bytes_and_mappings() {
        let mut parts = Parts::default();
        let mut made = 0;
        let mut part = |key, bytes: &[u8]| {
            let part = parts.user(key, bytes, || {
                made += 1;
                UserPart {
                    frames: vec![made],
                    end: StackEnd::Complete,
                }
            });
            part.frames[0]
        };
        assert_eq!(part((1, 1, 0), b"12345678"), 1);
        assert_eq!(part((1, 1, 0), b"12345678"), 1);
        assert_eq!(part((1, 2, 0), b"12345678"), 2, "other mappings");
        assert_eq!(part((2, 1, 0), b"12345678"), 3, "another process");
        assert_eq!(part((1, 1, 1), b"12345678"), 4, "another end");
        assert_eq!(part((1, 1, 0), b"12345679"), 5);
    }

    #[test]
    fn calls_are_placed_before_their_return_addresses() {
        let mut interner = Interner::default();
        let bytes = [0x1000u64, 0x2000].map(u64::to_ne_bytes).concat();
        let part =
            Parts::default().kernel(View::Whole, &bytes, &KernelMarks::default(), &mut interner);
        let places: Vec<Place> = part
            .frames
            .iter()
            .map(|&frame| interner.places()[frame as usize])
            .collect();
        assert_eq!(places, [Place::Kernel(0x1fff), Place::Kernel(0x1000)]);
    }
}
