//! Which methods a compiler inlined at a place of compiled code (`PcDesc`, `ScopeDesc` of HotSpot), and at which of their
//! instructions.
use crate::layout::{Jvm, Tables};
use crate::names::Method;
use crate::packed::Packed;
use dwell_maps::Memory;

/// Most methods at one place: compilers inline some ten deep.
const DEEPEST: usize = 128;
/// Bytes of a `PcDesc`.
const DESCRIPTION: u64 = 16;

impl Jvm {
    /// The methods at an actual address of a compiled method's blob, innermost first. Compilers tell of calls and safepoints
    /// only: of another place the next one is taken, as HotSpot's own profilers do.
    pub fn methods_at(
        &self,
        memory: &impl Memory,
        blob: u64,
        method: u64,
        address: u64,
    ) -> Vec<Method> {
        let inlined = self.scopes.as_ref().and_then(|scopes| {
            let offset = address.checked_sub(self.blob.code(memory, blob)?)?;
            let tables = scopes.tables(memory, blob)?;
            let scope = tables.scope(memory, i32::try_from(offset).ok()?)?;
            self.chain(memory, &tables, scope)
        });
        // The last one is the compiled method itself, or it was not the chain of this place.
        let inlined = inlined.filter(|chain| chain.last().is_some_and(|(last, _)| *last == method));
        let chain = inlined.unwrap_or_else(|| vec![(method, None)]);
        let named = chain
            .into_iter()
            .map(|(method, bci)| self.method_at(memory, method, bci));
        named.collect::<Option<_>>().unwrap_or_default()
    }

    /// Methods with the index of the bytecode they stand at, innermost first.
    fn chain(
        &self,
        memory: &impl Memory,
        tables: &Tables,
        innermost: u32,
    ) -> Option<Vec<(u64, Option<u32>)>> {
        let mut chain = Vec::new();
        let mut at = innermost;
        while at != 0 {
            if chain.len() == DEEPEST {
                return None;
            }
            let mut packed =
                Packed::new(memory, tables.data.checked_add(at.into())?, self.excluded?);
            let sender = packed.unsigned()?;
            let number = packed.unsigned()?;
            // -1 stands for the entry.
            let bci = packed.unsigned()?.checked_sub(1);
            let entry = tables
                .metadata
                .checked_add(8 * u64::from(number.checked_sub(1)?))?;
            chain.push((memory.word(entry)?, bci));
            at = sender;
        }
        Some(chain)
    }
}

impl Tables {
    /// The innermost scope at a distance from the code's beginning, by where it is in `data`.
    fn scope(&self, memory: &impl Memory, offset: i32) -> Option<u32> {
        let size = self.places_end.checked_sub(self.places)?;
        let (mut first, mut behind) = (0, size / DESCRIPTION);
        let start = |n: u64| memory.int(self.places.checked_add(n * DESCRIPTION)?);
        while first < behind {
            let middle = first + (behind - first) / 2;
            if start(middle)? < offset {
                first = middle + 1;
            } else {
                behind = middle;
            }
        }
        let found = self.places.checked_add(first * DESCRIPTION)?;
        let scope = memory
            .int(found.checked_add(4)?)
            .filter(|_| found < self.places_end)?;
        u32::try_from(scope).ok()
    }
}
