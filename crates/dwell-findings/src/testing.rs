//! Made-up recordings that the drawn ones of the analysis cannot tell of.
use crate::finding::Finding;
use crate::recorded::Recorded;
use dwell_analysis::Analysis;
use dwell_analysis::testing::drawn;
use dwell_recording::meta::MemoryCosts;
use dwell_recording::rows::MemoryPlaceRow;

/// A second of a thread that faults at one place.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// In the program, elsewhere.
    pub program_ms: u32,
    /// In the program, at the place.
    pub beside_ms: u32,
    /// In the kernel for memory.
    pub kernel_ms: u32,
    /// Pages.
    pub allocated: u64,
    /// Pages.
    pub freed: u64,
    /// How many.
    pub shootdowns: u64,
    /// Other processors' time.
    pub remote_ms: u64,
}

/// What a rule says of it.
pub fn recorded_memory(
    memory: &Memory,
    find: fn(&Recorded<'_, '_>) -> Vec<Finding>,
) -> Vec<Finding> {
    let mut tables = drawn(&format!(
        "state | running | running | running
         time  | {}      | {}      | {}
         stack | main    | main    | main
               | compute | fill    | fill
               |         |         | asm_exc_page_fault_[k]",
        memory.program_ms, memory.beside_ms, memory.kernel_ms
    ));
    let name = |id: u32| {
        let symbol = tables.symbols.iter().find(|s| s.frame == id);
        symbol.map(|s| s.function.clone()).unwrap_or_default()
    };
    let fills = |frames: &[u32]| frames.last().is_some_and(|f| name(*f) == "fill");
    let stacks = tables.stacks.iter().filter(|s| fills(&s.frames));
    let stacks: Vec<u32> = stacks.map(|s| s.stack).collect();
    tables.memory_places.push(MemoryPlaceRow {
        minor_faults: memory.allocated,
        anonymous_faults: memory.allocated,
        allocated_pages: memory.allocated,
        zeroed_pages: memory.allocated,
        freed_pages: memory.freed,
        shootdowns: memory.shootdowns,
        remote_flushes: memory.shootdowns,
        remote_ns: 1_000_000 * memory.remote_ms,
        stacks,
        ..MemoryPlaceRow::default()
    });
    tables.meta.memory = Some(MemoryCosts::default());
    let analysis = Analysis::of(&tables);
    find(&Recorded::of(&analysis))
}
