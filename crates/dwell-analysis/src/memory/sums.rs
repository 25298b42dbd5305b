//! The exact sums of places.
use dwell_recording::rows::MemoryPlaceRow;

macro_rules! sums {
    ($($field:ident),* $(,)?) => {
        /// Sums of places: the fields of [`MemoryPlaceRow`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub struct Sums {
            $(pub $field: u64,)*
        }

        impl Sums {
            /// Those of one place.
            pub fn of(row: &MemoryPlaceRow) -> Sums {
                Sums { $($field: row.$field,)* }
            }

            /// Adds others.
            pub fn add(&mut self, other: &Sums) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }

            /// Divides each sum into so many parts, as `divide` does.
            pub fn divided(&self, divide: impl Fn(u64) -> Vec<u64>, parts: usize) -> Vec<Sums> {
                let mut all = vec![Sums::default(); parts];
                $(for (part, n) in all.iter_mut().zip(divide(self.$field)) {
                    part.$field = n;
                })*
                all
            }
        }
    };
}

sums! {
    minor_faults, major_faults, anonymous_faults, copied_faults, file_faults, stack_faults,
    huge_faults, populated_faults, other_faults, calls, call_ns, allocated_pages, freed_pages,
    zeroed_pages, zeroed_huge_pages, shootdowns, remote_flushes, remote_ns, mmap_waits,
    mmap_wait_ns, spins, spin_ns, zone_waits, zone_wait_ns, list_waits, list_wait_ns, peak_pages,
}

impl Sums {
    /// All page faults.
    pub fn faults(&self) -> u64 {
        self.minor_faults.saturating_add(self.major_faults)
    }
}
