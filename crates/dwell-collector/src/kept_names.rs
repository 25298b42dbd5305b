//! Names of what a process executes, also of what is gone.
use hashbrown::HashMap;

/// Most bytes of the names of a process: then they are forgotten, and read again.
const MOST_BYTES: usize = 16 << 20;

/// Names by the addresses and the identities of what they name.
pub struct KeptNames<T> {
    names: HashMap<(u64, u32), T>,
    bytes: usize,
}

impl<T> Default for KeptNames<T> {
    fn default() -> Self {
        KeptNames {
            names: HashMap::new(),
            bytes: 0,
        }
    }
}

impl<T> KeptNames<T> {
    /// The name of something.
    pub fn get(&self, key: (u64, u32)) -> Option<&T> {
        self.names.get(&key)
    }

    /// Keeps a name that takes so many bytes elsewhere.
    pub fn add(&mut self, key: (u64, u32), name: T, bytes: usize) {
        if self.bytes > MOST_BYTES {
            *self = KeptNames::default();
        }
        self.bytes += size_of::<T>() + bytes;
        self.names.insert(key, name);
    }
}
