//! Rows that wait for the next segment.
use crate::rows::*;
use crate::table::Table;

/// A table of a recording: its rows wait here.
pub trait Buffered: Table {
    /// Where its rows wait for the next segment.
    fn buffer(buffers: &mut Buffers) -> &mut Vec<Self>;
}

macro_rules! buffers {
    ($($table:ident: $row:ident),* $(,)?) => {
        /// The rows of every table since the last segment was closed.
        #[derive(Default)]
        pub struct Buffers {
            $(pub(crate) $table: Vec<$row>,)*
        }

        $(impl Buffered for $row {
            fn buffer(buffers: &mut Buffers) -> &mut Vec<Self> {
                &mut buffers.$table
            }
        })*
    };
}

buffers! {
    processes: ProcessRow,
    threads: ThreadRow,
    mappings: MappingRow,
    frames: FrameRow,
    symbols: SymbolRow,
    stacks: StackRow,
    futexes: FutexRow,
    locks: LockRow,
    lock_blocks: LockBlockRow,
    kernel_locks: KernelLockRow,
    memory_places: MemoryPlaceRow,
    sites: SiteRow,
    site_times: SiteTimeRow,
    samples: SampleRow,
    slices: SliceRow,
    events: EventRow,
}

/// Something to do for every table.
pub trait ForTable<E> {
    /// Does it for one.
    fn table<R: Buffered>(&mut self) -> Result<(), E>;
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
