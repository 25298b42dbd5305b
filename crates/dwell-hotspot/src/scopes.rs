//! Which methods a compiler inlined at a place of compiled code (`PcDesc`, `ScopeDesc` of HotSpot), and at which of their
//! instructions.
use crate::layout::{Jvm, Scopes};
use crate::memory::Memory;
use crate::names::Method;
use crate::packed::Packed;

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
            let place = Place::find(scopes, memory, blob, address)?;
            self.chain(scopes, memory, &place)
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
        scopes: &Scopes,
        memory: &impl Memory,
        place: &Place,
    ) -> Option<Vec<(u64, Option<u32>)>> {
        let mut chain = Vec::new();
        let mut at = place.scope;
        while at != 0 {
            if chain.len() == DEEPEST {
                return None;
            }
            let mut packed =
                Packed::new(memory, place.data.checked_add(at.into())?, scopes.excluded);
            let sender = packed.unsigned()?;
            let number = packed.unsigned()?;
            // -1 stands for the entry.
            let bci = packed.unsigned()?.checked_sub(1);
            let entry = place
                .metadata
                .checked_add(8 * u64::from(number.checked_sub(1)?))?;
            chain.push((memory.word(entry)?, bci));
            at = sender;
        }
        Some(chain)
    }
}

/// What is known of a place in compiled code.
struct Place {
    /// Where its innermost scope is in `data`.
    scope: u32,
    data: u64,
    /// Addresses of methods, by number from 1.
    metadata: u64,
}

impl Place {
    fn find(scopes: &Scopes, memory: &impl Memory, blob: u64, address: u64) -> Option<Place> {
        let tables = scopes.tables(memory, blob)?;
        let offset = i32::try_from(address.checked_sub(tables.code)?).ok()?;
        let (mut first, mut behind) = (
            0,
            (tables.places_end.checked_sub(tables.places)?) / DESCRIPTION,
        );
        let start = |n: u64| memory.int(tables.places.checked_add(n * DESCRIPTION)?);
        while first < behind {
            let middle = first + (behind - first) / 2;
            if start(middle)? < offset {
                first = middle + 1;
            } else {
                behind = middle;
            }
        }
        let found = tables.places.checked_add(first * DESCRIPTION)?;
        let scope = memory
            .int(found.checked_add(4)?)
            .filter(|_| found < tables.places_end)?;
        Some(Place {
            scope: u32::try_from(scope).ok()?,
            data: tables.data,
            metadata: tables.metadata,
        })
    }
}
