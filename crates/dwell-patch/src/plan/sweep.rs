//! Looks through a whole file for anything that could enter a window other than by its first byte.
//!
//! Sources of such entries: direct jumps and calls, addresses that code takes (`lea`), jump tables
//! (relative and absolute), addresses in data (computed gotos; relocations store theirs in data or in
//! tables that are read as data), and landing pads of exceptions. What is no address but looks like one
//! only costs a refusal.
use super::{Image, Place, Refusal, Window, landing};
use dwell_elf::Segment;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

/// Entries of a jump table that are read at most: real ones have fewer than 10 000.
const MAX_TABLE: usize = 1 << 16;

/// Indices of windows that may be entered, and how.
pub(super) fn entered(image: &Image<'_>, windows: &[Window]) -> Vec<(usize, Refusal)> {
    if windows.is_empty() {
        return Vec::new();
    }
    let mut sweep = Sweep {
        windows,
        hits: Vec::new(),
        tables: Vec::new(),
    };
    for segment in image.file().segments() {
        if segment.executable {
            sweep.code(image, segment);
        }
    }
    sweep.tables.sort_unstable();
    sweep.tables.dedup();
    sweep.jump_tables(image);
    for segment in image.file().segments() {
        sweep.words(image, segment);
    }
    landing::each(image, |pad| sweep.address(pad));
    sweep.hits
}

struct Sweep<'a> {
    windows: &'a [Window],
    hits: Vec<(usize, Refusal)>,
    /// Stated addresses that may be those of jump tables.
    tables: Vec<u64>,
}

impl Sweep<'_> {
    fn window_at(&self, target: u64) -> Option<usize> {
        let index = self
            .windows
            .partition_point(|w| w.start() <= target)
            .checked_sub(1)?;
        Some(index).filter(|&i| target < self.windows[i].inside().end)
    }

    /// Something may jump to `target` for any reason.
    fn address(&mut self, target: u64) {
        let entered = self
            .window_at(target)
            .filter(|&i| target > self.windows[i].start());
        if let Some(index) = entered {
            self.hits.push((index, Refusal::JumpInto));
        }
    }

    /// A jump of the function itself, or of one of its tables.
    fn jump(&mut self, from: u64, target: u64) {
        self.address(target);
        // A window behind an `endbr64` is entered through it.
        for entry in [target, target + 4] {
            let Some(index) = self.window_at(entry) else {
                continue;
            };
            let window = &self.windows[index];
            let wants_entry = window.sites.iter().any(|s| s.place == Place::Entry);
            let same = window.function.start..window.function.end;
            let at_entry =
                window.start() == entry && (entry == target || window.function.start == target);
            if wants_entry && at_entry && same.contains(&from) {
                self.hits.push((index, Refusal::LoopsToEntry));
            }
        }
    }

    /// Decodes a segment, beginning anew wherever a function may begin.
    fn code(&mut self, image: &Image<'_>, segment: Segment) {
        let end = segment.stated_address + segment.file_size;
        let starts = image.starts();
        let from = starts.partition_point(|&s| s <= segment.stated_address);
        let to = starts.partition_point(|&s| s < end);
        let mut start = segment.stated_address;
        for &next in starts[from..to].iter().chain([&end]) {
            let len = (next - start) as usize;
            if let Some(bytes) = image.file().bytes_at(start, len) {
                for instruction in Decoder::with_ip(64, bytes, start, DecoderOptions::NONE) {
                    self.instruction(&instruction);
                }
            }
            start = next;
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        let has_near_target = matches!(
            instruction.op0_kind(),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
        );
        if has_near_target && instruction.op_count() == 1 {
            match instruction.flow_control() {
                FlowControl::Call => self.address(instruction.near_branch_target()),
                _ => self.jump(instruction.ip(), instruction.near_branch_target()),
            }
            return;
        }
        if instruction.code() == Code::Lea_r64_m && instruction.is_ip_rel_memory_operand() {
            let taken = instruction.ip_rel_memory_address();
            self.address(taken);
            self.tables.push(taken);
        }
        // `jmp *table(,%rax,8)`, or a load from such a table: absolute addresses, found as words.
        if instruction.memory_base() == Register::None
            && instruction.memory_index() != Register::None
            && instruction.memory_index_scale() == 4
        {
            self.tables.push(instruction.memory_displacement64());
        }
    }

    /// Tables of 32-bit distances from their own beginning.
    fn jump_tables(&mut self, image: &Image<'_>) {
        let tables = std::mem::take(&mut self.tables);
        for (index, &table) in tables.iter().enumerate() {
            let next = tables.get(index + 1).copied().unwrap_or(u64::MAX);
            let Some(bytes) = image.file().bytes_from(table) else {
                continue;
            };
            let room = usize::try_from((next - table) / 4)
                .unwrap_or(MAX_TABLE)
                .min(MAX_TABLE);
            let (entries, _) = bytes.as_chunks();
            for &entry in entries.iter().take(room) {
                let target = table.wrapping_add_signed(i32::from_le_bytes(entry).into());
                if !is_code(image, target) {
                    break;
                }
                // The jump that uses the table is taken to be in the function it leads to.
                self.jump(target, target);
            }
        }
    }

    /// Addresses in data.
    fn words(&mut self, image: &Image<'_>, segment: Segment) {
        let Some(bytes) = image
            .file()
            .bytes_at(segment.stated_address, segment.file_size as usize)
        else {
            return;
        };
        let skip = (segment.stated_address.wrapping_neg() % 8) as usize;
        let first = self.windows[0].start();
        let last = self.windows[self.windows.len() - 1].inside().end;
        let (words, _) = bytes.get(skip..).unwrap_or_default().as_chunks();
        for value in words.iter().copied().map(u64::from_le_bytes) {
            if (first..last).contains(&value) {
                self.address(value);
            }
        }
    }
}

fn is_code(image: &Image<'_>, address: u64) -> bool {
    image
        .file()
        .segments()
        .any(|s| s.executable && (s.stated_address..s.stated_end()).contains(&address))
}
