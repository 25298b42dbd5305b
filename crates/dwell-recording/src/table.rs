//! What makes a row struct a table.
use crate::column::{Field, Kind, Values};
use parquet::schema::types::TypePtr;

/// A row struct of [`crate::rows`]: its table, and its key where it has one.
pub trait Table: Columns + Clone + Default {
    /// Name of the table, as in `TABLE-NNNN.parquet`.
    const NAME: &'static str;
    /// True when a later row replaces an earlier one with the same key.
    const KEYED: bool;
    /// The key; 0 for a table without one.
    fn key(&self) -> u64;
}

/// The columns of a table. Only the rows of this crate have them.
pub trait Columns: Sized + 'static {
    /// The Parquet columns, in order.
    fn columns() -> Vec<(TypePtr, Kind)>;
    /// Calls `write` with the values of each column in turn.
    fn gather<E>(
        rows: &[Self],
        values: &mut Values,
        write: impl FnMut(&Values) -> Result<(), E>,
    ) -> Result<(), E>;
    /// Fills each column of the rows with what `read` leaves for it; `false`: not in the file.
    fn scatter(
        rows: &mut [Self],
        values: &mut Values,
        read: impl FnMut(&str, &mut Values) -> Result<bool, String>,
    ) -> Result<(), String>;
    /// Memory the row owns outside itself, bytes.
    fn heap_bytes(&self) -> usize;
}

/// The column of the field that `_access` names.
pub fn column_of<R, F: Field>(
    _access: impl Fn(&R) -> &F,
    name: &str,
    kind: Kind,
) -> (TypePtr, Kind) {
    (F::column(name, kind), kind)
}

/// Keeps the last row of every key, ordered by key. A table without a key stays as it is.
pub fn keep_last<R: Table>(rows: &mut Vec<R>) {
    if !R::KEYED || rows.is_sorted_by(|a, b| a.key() < b.key()) {
        return;
    }
    rows.reverse();
    rows.sort_by_key(R::key);
    rows.dedup_by_key(|row| row.key());
}
