//! CPython's lock of the interpreter (GIL), which is made of two conditions and two mutexes.
//!
//! They lie side by side at the end of `struct _gil_runtime_state` (`pycore_gil.h`, CPython 3.7 to 3.14): the condition
//! of those that want the lock, its mutex, and the condition and the mutex of who gave it away and waits until another has
//! it. Where an interpreter has no names, as Debian ships it, most of these waits are in functions that cannot be told; but
//! threads that come back from elsewhere wait on the same words, in a function that has a name for extension modules.
use super::Identity;
use super::classify::Class;
use super::kinds;
use super::sites::FutexSite;
use std::collections::BTreeSet;

/// What it is called.
pub(super) const NAME: &str = "GIL";

/// Two of `pthread_cond_t` and two of `pthread_mutex_t`: glibc, x86-64.
const SIZE: u64 = 2 * (48 + 40);

fn is_gil(site: &FutexSite) -> bool {
    site.class.name == NAME
}

/// Makes the waits for all parts of an interpreter's lock waits for one.
pub(super) fn put_together(sites: &mut [FutexSite]) {
    let known: BTreeSet<(u32, u64)> = sites
        .iter()
        .filter(|s| is_gil(s))
        .filter_map(|s| match s.identity {
            Identity::Word { process, address } => Some((process, address)),
            Identity::Caller { .. } => None,
        })
        .collect();
    for site in sites {
        match site.identity {
            Identity::Word { process, address } => {
                let near = (process, address.saturating_sub(SIZE - 1))..=(process, address);
                let Some(&(_, first)) = known.range(near).next() else {
                    continue;
                };
                site.identity = Identity::Word {
                    process,
                    address: first,
                };
                site.class = Class::of(&kinds::gil(""), site.class.caller);
                if let Some((_, offset)) = &mut site.word {
                    *offset += address - first;
                }
            }
            // In musl each waiting thread has a word of its own.
            Identity::Caller { process, .. } if is_gil(site) => {
                let function = None;
                site.identity = Identity::Caller { process, function };
            }
            Identity::Caller { .. } => {}
        }
    }
}
