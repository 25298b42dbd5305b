//! A whole recording in memory.
use crate::meta::Meta;
use crate::rows::*;

/// Every table of a recording, segments joined, later rows of a keyed table having replaced earlier ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// `meta.json`.
    pub meta: Meta,
    /// Table `processes`.
    pub processes: Vec<ProcessRow>,
    /// Table `threads`.
    pub threads: Vec<ThreadRow>,
    /// Table `mappings`.
    pub mappings: Vec<MappingRow>,
    /// Table `frames`.
    pub frames: Vec<FrameRow>,
    /// Table `symbols`.
    pub symbols: Vec<SymbolRow>,
    /// Table `stacks`.
    pub stacks: Vec<StackRow>,
    /// Table `sites`.
    pub sites: Vec<SiteRow>,
    /// Table `futexes`.
    pub futexes: Vec<FutexRow>,
    /// Table `locks`.
    pub locks: Vec<LockRow>,
    /// Table `lock_blocks`.
    pub lock_blocks: Vec<LockBlockRow>,
    /// Table `kernel_locks`.
    pub kernel_locks: Vec<KernelLockRow>,
    /// Table `memory_places`.
    pub memory_places: Vec<MemoryPlaceRow>,
    /// Table `site_times`.
    pub site_times: Vec<SiteTimeRow>,
    /// Table `samples`.
    pub samples: Vec<SampleRow>,
    /// Table `slices`.
    pub slices: Vec<SliceRow>,
    /// Table `events`.
    pub events: Vec<EventRow>,
}
