//! Rows that wait for the next segment.
use crate::rows::*;
use crate::table::Table;

/// The rows of every table since the last segment was closed.
#[derive(Default)]
pub struct Buffers {
    pub(crate) processes: Vec<ProcessRow>,
    pub(crate) threads: Vec<ThreadRow>,
    pub(crate) mappings: Vec<MappingRow>,
    pub(crate) frames: Vec<FrameRow>,
    pub(crate) symbols: Vec<SymbolRow>,
    pub(crate) stacks: Vec<StackRow>,
    pub(crate) futexes: Vec<FutexRow>,
    pub(crate) locks: Vec<LockRow>,
    pub(crate) lock_blocks: Vec<LockBlockRow>,
    pub(crate) kernel_locks: Vec<KernelLockRow>,
    pub(crate) memory_places: Vec<MemoryPlaceRow>,
    pub(crate) sites: Vec<SiteRow>,
    pub(crate) site_times: Vec<SiteTimeRow>,
    pub(crate) samples: Vec<SampleRow>,
    pub(crate) slices: Vec<SliceRow>,
    pub(crate) events: Vec<EventRow>,
}

/// Something to do for every table.
pub trait ForTable<E> {
    /// Does it for one.
    fn table<R: Table>(&mut self) -> Result<(), E>;
}

/// Visits every table, what is referred to before what refers to it, so that whatever part of a
/// segment reaches the disk, its ids resolve.
pub fn for_each_table<E>(action: &mut impl ForTable<E>) -> Result<(), E> {
    action.table::<FrameRow>()?;
    action.table::<SymbolRow>()?;
    action.table::<StackRow>()?;
    action.table::<ProcessRow>()?;
    action.table::<ThreadRow>()?;
    action.table::<MappingRow>()?;
    action.table::<FutexRow>()?;
    action.table::<LockRow>()?;
    action.table::<LockBlockRow>()?;
    action.table::<KernelLockRow>()?;
    action.table::<MemoryPlaceRow>()?;
    action.table::<SiteRow>()?;
    action.table::<SiteTimeRow>()?;
    action.table::<EventRow>()?;
    action.table::<SampleRow>()?;
    action.table::<SliceRow>()
}

/// The names of all tables.
pub const TABLES: [&str; 16] = [
    FrameRow::NAME,
    SymbolRow::NAME,
    StackRow::NAME,
    ProcessRow::NAME,
    ThreadRow::NAME,
    MappingRow::NAME,
    FutexRow::NAME,
    LockRow::NAME,
    LockBlockRow::NAME,
    KernelLockRow::NAME,
    MemoryPlaceRow::NAME,
    SiteRow::NAME,
    SiteTimeRow::NAME,
    EventRow::NAME,
    SampleRow::NAME,
    SliceRow::NAME,
];
