//! Lines of scripts.
use crate::objects::{Heap, small};
use crate::text::Piece;
use dwell_maps::Memory;

/// Longer scripts have no lines.
const LONGEST_SCRIPT: u32 = 16 << 20;
/// Characters that are read at once.
const AT_ONCE: u32 = 64 << 10;
/// More lines are not believed.
pub(crate) const MOST_LINES: usize = 1 << 20;

impl<M: Memory> Heap<'_, M> {
    /// The line of a place in a script, from 1 on. `counted`: where its lines end, once that is known.
    pub(crate) fn line(&self, script: u64, place: u32, counted: &mut Vec<u32>) -> Option<u32> {
        if counted.is_empty() {
            *counted = self
                .ends_told(script)
                .or_else(|| self.ends_in_source(script))?;
        }
        u32::try_from(counted.partition_point(|end| *end < place) + 1).ok()
    }

    /// Where lines end, as the engine has counted them: it does so when it first needs them.
    fn ends_told(&self, script: u64) -> Option<Vec<u32>> {
        let layout = self.layout;
        let ends = self.object_at(script, layout.script_line_ends)?;
        let length = usize::try_from(self.small_at(ends, layout.array_length)?).ok()?;
        if !(1..=MOST_LINES).contains(&length) {
            return None;
        }
        let mut bytes = vec![0; 8 * length];
        if !self
            .memory
            .read(ends.checked_add(layout.array_data)?, &mut bytes)
        {
            return None;
        }
        let (words, _) = bytes.as_chunks();
        let ends = words.iter().map(|word| small(u64::from_le_bytes(*word)));
        let ends: Option<Vec<u32>> = ends.map(|end| u32::try_from(end?).ok()).collect();
        ends.filter(|ends| ends.is_sorted())
    }

    fn ends_in_source(&self, script: u64) -> Option<Vec<u32>> {
        let source = self.object_at(script, self.layout.script_source)?;
        let length = self.text_length(source)?;
        if length > LONGEST_SCRIPT {
            return None;
        }
        let mut ends = Vec::new();
        let mut place = 0;
        for from in (0..length).step_by(AT_ONCE as usize) {
            let range = from..length.min(from + AT_ONCE);
            self.pieces(source, range, &mut |piece| {
                let mut see = |is_end: bool| {
                    if is_end {
                        ends.push(place);
                    }
                    place += 1;
                };
                match piece {
                    Piece::OneByte(bytes) => bytes.iter().for_each(|byte| see(*byte == b'\n')),
                    Piece::TwoByte(units) => units.iter().for_each(|unit| see(*unit == 10)),
                }
            })?;
            if ends.len() > MOST_LINES {
                return None;
            }
        }
        ends.push(length);
        Some(ends)
    }
}
