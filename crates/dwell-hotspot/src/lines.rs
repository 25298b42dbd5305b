//! Lines of Java methods.
use crate::layout::Jvm;
use crate::names::Method;
use crate::packed::Packed;
use dwell_maps::Memory;
use std::ops::Range;

/// First flag of a `ConstMethod`: it has a table of lines.
const HAS_LINES: u16 = 1;

impl Jvm {
    /// The index of a bytecode in a method, by its address; none where that is not of the method.
    pub fn bytecode(&self, memory: &impl Memory, method: u64, address: u64) -> Option<u32> {
        let code = self.code(memory, self.constant_part(memory, method)?)?;
        code.contains(&address)
            .then(|| (address - code.start) as u32)
    }

    /// A method (HotSpot's `Method` at an address) with the line of a bytecode by its index, as far as that is known.
    pub fn method_at(&self, memory: &impl Memory, method: u64, bci: Option<u32>) -> Option<Method> {
        Some(Method {
            line: bci.and_then(|bci| self.line(memory, method, bci)),
            ..self.method(memory, method)?
        })
    }

    /// Where the code of a constant part lies.
    fn code(&self, memory: &impl Memory, constant: u64) -> Option<Range<u64>> {
        let size = memory.short(constant.checked_add(self.methods.code_size.into())?)?;
        let start = constant.checked_add(self.methods.constant_bytes.into())?;
        Some(start..start.checked_add(size.into())?)
    }

    /// The line of a method's bytecode at an index: the table lies behind the code, pairs of packed differences
    /// (`CompressedLineNumberReadStream`).
    pub(crate) fn line(&self, memory: &impl Memory, method: u64, bci: u32) -> Option<u32> {
        let constant = self.constant_part(memory, method)?;
        if memory.short(constant.checked_add(self.flags?)?)? & HAS_LINES == 0 {
            return None;
        }
        let code = self.code(memory, constant)?;
        let mut packed = Packed::new(memory, code.end, self.excluded?);
        let (mut at, mut line, mut found) = (0i32, 0i32, None);
        // One for each bytecode at most.
        for _ in code {
            match packed.byte()? {
                0 => break,
                0xff => {
                    at = at.checked_add(packed.signed()?)?;
                    line = line.checked_add(packed.signed()?)?;
                }
                pair => {
                    at = at.checked_add((pair >> 3).into())?;
                    line = line.checked_add((pair & 7).into())?;
                }
            }
            // Entries come in the order of their code, mostly.
            if u32::try_from(at).is_ok_and(|at| at <= bci)
                && found.is_none_or(|(before, _)| before <= at)
            {
                found = Some((at, line));
            }
        }
        found.and_then(|(_, line)| u32::try_from(line).ok())
    }
}
