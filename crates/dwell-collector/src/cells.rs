//! The cell space: unwind rows of all modules in chunks that the kernel side reads.
//!
//! A cell is 8 bytes: a row, half a rule, or an index entry. Cells are given away from the bottom
//! up and never given back; modules are shared between processes.
use crate::error::CollectError;
use crate::unwind_maps::{UnwindMaps, chunk_fd};
use dwell_abi::events::{CHUNK_SHIFT, IndexEntry, MAX_CHUNKS, ModuleTable};
use dwell_abi::unwind::{INDEX_SHIFT, Row};
use dwell_elf::unwind::UnwindTable;
use libbpf_rs::MapHandle;
use std::os::fd::AsRawFd;

const CELLS: usize = 1 << CHUNK_SHIFT;
const _: () = assert!(size_of::<IndexEntry>() == 8 && size_of::<Row>() == 8);

struct Chunk {
    base: *mut u64,
    // Keeps the map, and with it the memory, alive.
    _map: MapHandle,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what add_chunk mapped.
        unsafe { libc::munmap(self.base.cast(), CELLS * 8) };
    }
}

/// See the module's text.
#[derive(Default)]
pub struct Cells {
    chunks: Vec<Chunk>,
    used: usize,
}

impl Cells {
    /// Writes a module's rows, rules and index, and says where they are.
    pub fn add(
        &mut self,
        maps: &UnwindMaps,
        table: &UnwindTable,
    ) -> Result<ModuleTable, CollectError> {
        let index = table.index(INDEX_SHIFT);
        let mut entries = Vec::with_capacity(index.len());
        // Row number `i` of the table is at `cell_of_row + i` within the current chunk's run.
        let mut run = RowRun {
            cell: 0,
            first_row: 0,
            end_row: 0,
        };
        for slot in index.windows(2) {
            let (first, end) = (slot[0].saturating_sub(1) as usize, slot[1] as usize);
            let length = end.saturating_sub(first);
            if length == 0 {
                entries.push(IndexEntry { cell: 0, len: 0 });
                continue;
            }
            self.extend_run(maps, &mut run, &table.rows, first, end)?;
            entries.push(IndexEntry {
                cell: (run.cell + first - run.first_row) as u32,
                len: length as u32,
            });
        }
        let rules_cell = self.reserve(maps, table.rules.len() * 2)?;
        for (i, rule) in table.rules.iter().enumerate() {
            let [low, high] = rule.bits();
            self.put(rules_cell + 2 * i, low);
            self.put(rules_cell + 2 * i + 1, high);
        }
        let index_cell = self.reserve(maps, entries.len())?;
        for (i, entry) in entries.iter().enumerate() {
            self.put(
                index_cell + i,
                u64::from(entry.cell) | u64::from(entry.len) << 32,
            );
        }
        Ok(ModuleTable {
            index_cell: index_cell as u32,
            index_len: entries.len() as u32,
            rules_cell: rules_cell as u32,
            rules_len: table.rules.len() as u32,
        })
    }

    /// Makes rows `first..end` lie in the run, which never crosses a chunk: the row before a chunk's
    /// first one is written again there.
    fn extend_run(
        &mut self,
        maps: &UnwindMaps,
        run: &mut RowRun,
        rows: &[Row],
        first: usize,
        end: usize,
    ) -> Result<(), CollectError> {
        let room = self.used.next_multiple_of(CELLS) - self.used;
        let continues = run.end_row > first && end.saturating_sub(run.end_row) <= room;
        if !continues {
            if end - first > room {
                self.used = self.used.next_multiple_of(CELLS);
            }
            *run = RowRun {
                cell: self.used,
                first_row: first,
                end_row: first,
            };
        }
        for row in rows.get(run.end_row..end).unwrap_or_default() {
            let cell = self.reserve(maps, 1)?;
            self.put(cell, row.bits());
            run.end_row += 1;
        }
        Ok(())
    }

    fn reserve(&mut self, maps: &UnwindMaps, cells: usize) -> Result<usize, CollectError> {
        let at = self.used;
        while self.chunks.len() * CELLS < at + cells {
            self.add_chunk(maps)?;
        }
        self.used += cells;
        Ok(at)
    }

    fn add_chunk(&mut self, maps: &UnwindMaps) -> Result<(), CollectError> {
        let number = self.chunks.len() as u32;
        if number >= MAX_CHUNKS {
            return Err(CollectError::Target(
                "unwind tables of more than 512 MiB are not supported: record fewer processes"
                    .into(),
            ));
        }
        let map = maps.add_chunk(number)?;
        // SAFETY: a fresh shared mapping of the whole value of an mmapable array map.
        let base = unsafe {
            let fd = chunk_fd(&map).as_raw_fd();
            libc::mmap(
                std::ptr::null_mut(),
                CELLS * 8,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(CollectError::system("mapping a chunk of unwind tables", ""));
        }
        self.chunks.push(Chunk {
            base: base.cast(),
            _map: map,
        });
        Ok(())
    }

    fn put(&mut self, cell: usize, value: u64) {
        let chunk = &self.chunks[cell / CELLS];
        // SAFETY: the offset is below CELLS, the number of u64 in the mapping. The kernel side may
        // read concurrently; a cell is published only later, through the module's table.
        unsafe { std::ptr::write_volatile(chunk.base.add(cell % CELLS), value) };
    }
}

/// Rows written one after the other: row `first_row` is at `cell`.
struct RowRun {
    cell: usize,
    first_row: usize,
    end_row: usize,
}
