//! Lines of Java methods.
use crate::layout::Jvm;
use crate::memory::Memory;
use crate::packed::Packed;

/// First flag of a `ConstMethod`: it has a table of lines.
const HAS_LINES: u16 = 1;
/// Most entries of one; a method has at most 65 535 bytes of code.
const MOST: usize = 65_536;

impl Jvm {
    /// The line of a method's bytecode at an index: the table lies behind the code, pairs of packed differences
    /// (`CompressedLineNumberReadStream`).
    pub(crate) fn line(&self, memory: &impl Memory, method: u64, bci: u32) -> Option<u32> {
        let lines = self.lines.as_ref()?;
        let constant = memory.word(method.checked_add(self.methods.constant)?)?;
        if memory.short(constant.checked_add(lines.flags)?)? & HAS_LINES == 0 {
            return None;
        }
        let code = memory.short(constant.checked_add(lines.code_size)?)?;
        let table = constant.checked_add(lines.size)?.checked_add(code.into())?;
        let mut packed = Packed::new(memory, table, lines.excluded);
        let (mut at, mut line, mut found) = (0i32, 0i32, None);
        for _ in 0..MOST {
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
            if u32::try_from(at).is_ok_and(|at| at <= bci) && found.is_none_or(|(before, _)| before <= at) {
                found = Some((at, line));
            }
        }
        found.and_then(|(_, line)| u32::try_from(line).ok())
    }
}
