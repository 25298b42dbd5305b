//! Operations and stores for the interpreter, simply made: what other engines are compared with.
use super::Store;
use super::interpret::{Fault, Machine};
use super::memory::{Memory, Region};
use super::operation::{self as op};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// Negative results, as the kernel has them.
const NOT_FOUND: u64 = (-2i64) as u64;
const TOO_BIG: u64 = (-7i64) as u64;
const FAULT: u64 = (-14i64) as u64;
const EXISTS: u64 = (-17i64) as u64;
/// How stores look to operations.
const STORE_TAG: u64 = 0x5704_0000_0000;

/// The world around a program.
pub trait World {
    /// Results of the operations without arguments; none for one that there is not.
    fn value(&mut self, operation: u32) -> Option<u64>;
    /// Reads the target's memory, as much as there is.
    fn read_user(&mut self, address: u64, into: &mut [u8]) -> usize;
    /// The stack, innermost first.
    fn stack(&mut self, user: bool) -> Vec<u64>;
    /// The thread's name.
    fn name(&mut self) -> [u8; 16];
}

/// A world without anything.
pub struct Nothing;

impl World for Nothing {
    fn value(&mut self, _operation: u32) -> Option<u64> {
        None
    }

    fn read_user(&mut self, _address: u64, _into: &mut [u8]) -> usize {
        0
    }

    fn stack(&mut self, _user: bool) -> Vec<u64> {
        Vec::new()
    }

    fn name(&mut self) -> [u8; 16] {
        [0; 16]
    }
}

/// Values by key, each in memory of its own.
#[derive(Debug, Clone, Default)]
struct Values(BTreeMap<Vec<u8>, Region>);

/// The machine.
pub struct Model<W> {
    /// The world, to be changed between two runs.
    pub world: W,
    stores: Vec<Store>,
    memory: Memory,
    /// By store: of memory under the empty key, of threads by thread.
    values: Vec<Values>,
    records: Vec<Vec<u8>>,
}

impl<W: World> Model<W> {
    /// A machine with these stores, all zero or empty.
    pub fn new(stores: &[Store], world: W) -> Self {
        let mut model = Model {
            world,
            stores: stores.to_vec(),
            memory: Memory::default(),
            values: vec![Values::default(); stores.len()],
            records: Vec::new(),
        };
        for (store, values) in stores.iter().zip(&mut model.values) {
            if let Store::Memory { size } = store {
                let region = model.memory.add_zeroed(*size as usize);
                values.0.insert(Vec::new(), region);
            }
        }
        model
    }

    /// The contents of a store of memory.
    pub fn memory_of(&mut self, store: u32) -> Option<&mut [u8]> {
        let region = *self.values.get(store as usize)?.0.get(&Vec::new())?;
        Some(self.memory.bytes_mut(region))
    }

    /// Memory outside of all stores, for the context of a run.
    pub fn add_memory(&mut self, bytes: Vec<u8>) -> u64 {
        let region = self.memory.add(bytes);
        self.memory.address(region)
    }

    /// The entries of a table or of sums, in the order of their keys.
    pub fn entries(&self, store: u32) -> impl Iterator<Item = (&[u8], &[u8])> {
        let values = self.values.get(store as usize).into_iter();
        values
            .flat_map(|v| &v.0)
            .map(|(key, region)| (key.as_slice(), self.memory.bytes(*region)))
    }

    /// Takes the records that were written, oldest first.
    pub fn take_records(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.records)
    }

    fn sizes(&self, store: u64) -> Option<(usize, Store)> {
        let index = usize::try_from(store.checked_sub(STORE_TAG)?).ok()?;
        Some((index, *self.stores.get(index)?))
    }

    fn table(&self, store: u64, key: u64) -> Option<(usize, Vec<u8>, usize, u32)> {
        match self.sizes(store)? {
            (
                index,
                Store::Table {
                    key: size,
                    value,
                    entries,
                }
                | Store::Sums {
                    key: size,
                    value,
                    entries,
                },
            ) => {
                let key = self.memory.at(key, size as usize)?.to_vec();
                Some((index, key, value as usize, entries))
            }
            _ => None,
        }
    }

    fn lookup(&mut self, [store, key, ..]: [u64; 5]) -> Option<u64> {
        let (index, key, ..) = self.table(store, key)?;
        let found = self.values[index].0.get(&key);
        Some(found.map_or(0, |region| self.memory.address(*region)))
    }

    fn update(&mut self, [store, key, value, flags, _]: [u64; 5]) -> Option<u64> {
        let (index, key, size, entries) = self.table(store, key)?;
        let value = self.memory.at(value, size)?.to_vec();
        let there = self.values[index].0.get(&key).copied();
        if let Some(region) = there {
            if flags == op::IF_NEW as u64 {
                return Some(EXISTS);
            }
            self.memory.bytes_mut(region).copy_from_slice(&value);
            return Some(0);
        }
        if self.values[index].0.len() >= entries as usize {
            return Some(TOO_BIG);
        }
        let region = self.memory.add(value);
        self.values[index].0.insert(key, region);
        Some(0)
    }

    fn delete(&mut self, [store, key, ..]: [u64; 5]) -> Option<u64> {
        let (index, key, ..) = self.table(store, key)?;
        Some(self.values[index].0.remove(&key).map_or(NOT_FOUND, |_| 0))
    }

    fn thread_memory(&mut self, [store, thread, _, flags, _]: [u64; 5]) -> Option<u64> {
        let (index, Store::Thread { size }) = self.sizes(store)? else {
            return None;
        };
        let key = thread.to_le_bytes().to_vec();
        let there = self.values[index].0.get(&key).copied();
        if there.is_none() && flags != op::CREATE as u64 {
            return Some(0);
        }
        let region = there.unwrap_or_else(|| self.memory.add_zeroed(size as usize));
        self.values[index].0.insert(key, region);
        Some(self.memory.address(region))
    }

    fn record(&mut self, [_, address, size, ..]: [u64; 5]) -> Option<u64> {
        let record = self
            .memory
            .at(address, usize::try_from(size).ok()?)?
            .to_vec();
        self.records.push(record);
        Some(0)
    }

    /// Bytes from anywhere: the program's memory, then the target's.
    fn read(&mut self, from: u64, size: usize, user: bool) -> Vec<u8> {
        let mut bytes = vec![0; size];
        let read = if user {
            self.world.read_user(from, &mut bytes)
        } else {
            let there = self.memory.from(from).unwrap_or_default();
            let length = there.len().min(size);
            bytes[..length].copy_from_slice(&there[..length]);
            length
        };
        bytes.truncate(read);
        bytes
    }

    fn copy(&mut self, [to, size, from, ..]: [u64; 5], user: bool) -> Option<u64> {
        let size = usize::try_from(size).ok()?;
        let bytes = self.read(from, size, user);
        let into = self.memory.at_mut(to, size)?;
        if bytes.len() < size {
            into.fill(0);
            return Some(FAULT);
        }
        into.copy_from_slice(&bytes);
        Some(0)
    }

    fn copy_string(&mut self, [to, size, from, ..]: [u64; 5], user: bool) -> Option<u64> {
        let size = usize::try_from(size).ok()?;
        let mut bytes = self.read(from, size, user);
        let end = bytes.iter().position(|b| *b == 0);
        let into = self.memory.at_mut(to, size)?;
        if end.is_none() && bytes.len() < size {
            into.fill(0);
            return Some(FAULT);
        }
        bytes.truncate(end.unwrap_or(size - 1));
        into[..bytes.len()].copy_from_slice(&bytes);
        into[bytes.len()] = 0;
        Some(bytes.len() as u64 + 1)
    }

    fn stack(&mut self, user: bool, address: u64, size: u64) -> Option<u64> {
        let mut frames = self.world.stack(user);
        frames.truncate((size / 8) as usize);
        for (at, frame) in (address..).step_by(8).zip(&frames) {
            self.memory.store(at, 8, *frame)?;
        }
        Some(frames.len() as u64 * 8)
    }

    fn name(&mut self, [address, size, ..]: [u64; 5]) -> Option<u64> {
        let name = self.world.name();
        let into = self.memory.at_mut(address, usize::try_from(size).ok()?)?;
        into.copy_from_slice(name.get(..into.len())?);
        Some(0)
    }
}

impl<W: World> Machine for Model<W> {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn call(&mut self, operation: u32, arguments: [u64; 5]) -> Result<u64, Fault> {
        let value = match operation {
            op::LOOKUP => self.lookup(arguments),
            op::UPDATE => self.update(arguments),
            op::DELETE => self.delete(arguments),
            op::THREAD_MEMORY => self.thread_memory(arguments),
            op::RECORD => self.record(arguments),
            op::READ_USER | op::READ_KERNEL => self.copy(arguments, operation == op::READ_USER),
            op::READ_USER_STRING | op::READ_KERNEL_STRING => {
                self.copy_string(arguments, operation == op::READ_USER_STRING)
            }
            op::STACK => self.stack(false, arguments[1], arguments[2]),
            op::USER_STACK => self.stack(true, arguments[0], arguments[1]),
            op::NAME => self.name(arguments),
            _ => self.world.value(operation),
        };
        value.ok_or(Fault::Operation(operation))
    }

    fn store(&mut self, store: u32) -> Option<u64> {
        self.stores.get(store as usize)?;
        Some(STORE_TAG + u64::from(store))
    }

    fn store_address(&mut self, store: u32) -> Option<u64> {
        let region = *self.values.get(store as usize)?.0.get(&Vec::new())?;
        Some(self.memory.address(region))
    }
}
