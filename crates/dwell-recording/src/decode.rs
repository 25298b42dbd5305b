//! One segment of one table: the bytes of a Parquet file to rows.
//!
//! The Parquet crate reads the footer and the headers of pages. What it tells is checked before it
//! is relied on, and only what [`crate::Writer`] writes is let through: one row group, pages of
//! version 1, no compression, four encodings.
use crate::column::Values;
use crate::encodings::{self, take_prefixed};
use crate::table::{Columns, Table};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::column::page::Page;
use parquet::data_type::ByteArray;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

/// Rows of one segment at most. The writer closes a segment far earlier.
pub const MAX_ROWS: usize = 1 << 18;
/// Bytes of text in one segment at most, in memory.
pub const MAX_TEXT_BYTES: usize = 64 << 20;
/// Size of a file at most.
pub const MAX_FILE_BYTES: u64 = 128 << 20;
/// Elements of all lists of a column at most.
const MAX_LIST_VALUES: usize = 1 << 23;

type Result<T> = std::result::Result<T, String>;

/// Decodes one Parquet file of a recording. `absent` names columns that a file of an older format
/// version may lack; they keep their default.
///
/// Any bytes may be given: an error says why they are not a segment of this table. Memory is
/// bounded by the size of the input and the limits of this module: about 200 MiB at the worst.
pub fn decode<R: Table>(file: Vec<u8>, absent: &[&str]) -> Result<Vec<R>> {
    let reader = SerializedFileReader::new(Bytes::from(file)).map_err(|error| error.to_string())?;
    let group = checked_group(reader.metadata())?;
    let rows = checked_rows(group)?;
    let columns = checked_columns::<R>(group, absent)?;
    check_chunks(group, rows)?;
    let pages = reader.get_row_group(0).map_err(|error| error.to_string())?;
    let mut decoded = vec![R::default(); rows];
    let mut text_left = MAX_TEXT_BYTES;
    R::scatter(&mut decoded, &mut Values::default(), |name, values| {
        let Some(index) = columns.iter().position(|column| column == name) else {
            return Ok(false);
        };
        read_column(pages.as_ref(), index, values)
            .and_then(|()| check_column(values, rows, &mut text_left))
            .map_err(|reason| format!("column {name}: {reason}"))?;
        Ok(true)
    })?;
    Ok(decoded)
}

/// Decodes the bytes of a segment of table `R`, as [`crate::Recording`] does with every file; made
/// for tests of hostile input. An error says why they are not such a segment.
pub fn decode_segment<R: Table>(file: Vec<u8>) -> Result<Vec<R>> {
    decode(file, &[])
}

fn checked_group(metadata: &ParquetMetaData) -> Result<&RowGroupMetaData> {
    match metadata.row_groups() {
        [group] => Ok(group),
        groups => Err(format!("{} row groups, a segment has one", groups.len())),
    }
}

fn checked_rows(group: &RowGroupMetaData) -> Result<usize> {
    let rows = group.num_rows();
    usize::try_from(rows)
        .ok()
        .filter(|rows| *rows <= MAX_ROWS)
        .ok_or_else(|| format!("{rows} rows, a segment has at most {MAX_ROWS}"))
}

/// The names of the file's columns, each of which is as this program writes it.
fn checked_columns<R: Columns>(group: &RowGroupMetaData, absent: &[&str]) -> Result<Vec<String>> {
    let found = group.schema_descr().root_schema().get_fields();
    let expected = R::columns();
    for column in found {
        let name = column.name();
        match expected.iter().find(|(column, _)| column.name() == name) {
            None => return Err(format!("column {name} is not one of this table's")),
            Some((wanted, _)) if wanted != column => {
                return Err(format!("column {name} has another type than this table's"));
            }
            Some(_) => {}
        }
    }
    let mut names = expected.iter().map(|(column, _)| column.name());
    let missing = names
        .find(|name| !absent.contains(name) && !found.iter().any(|column| column.name() == *name));
    match missing {
        Some(name) => Err(format!("column {name} is missing")),
        None => Ok(found
            .iter()
            .map(|column| column.name().to_string())
            .collect()),
    }
}

/// Checks what the page reader takes on trust.
fn check_chunks(group: &RowGroupMetaData, rows: usize) -> Result<()> {
    if group.columns().len() != group.schema_descr().num_columns() {
        return Err("columns and their chunks differ in number".into());
    }
    for chunk in group.columns() {
        check_chunk(chunk, rows)
            .map_err(|reason| format!("column {}: {reason}", chunk.column_path()))?;
    }
    Ok(())
}

fn check_chunk(chunk: &ColumnChunkMetaData, rows: usize) -> Result<()> {
    if chunk.compression() != Compression::UNCOMPRESSED {
        return Err("it is compressed, which no recording is".into());
    }
    let offsets = [
        Some(chunk.data_page_offset()),
        chunk.dictionary_page_offset(),
        Some(chunk.compressed_size()),
    ];
    if offsets.into_iter().flatten().any(|offset| offset < 0) {
        return Err("a negative offset".into());
    }
    let values = usize::try_from(chunk.num_values()).map_err(|_| "a negative number of values")?;
    let plausible = if chunk.column_descr().max_rep_level() > 0 {
        (rows..=MAX_LIST_VALUES.max(rows)).contains(&values)
    } else {
        values == rows
    };
    if plausible {
        Ok(())
    } else {
        Err(format!("{values} values for {rows} rows"))
    }
}

/// Reads a column whole into `values`, which are empty.
fn read_column(group: &dyn RowGroupReader, index: usize, values: &mut Values) -> Result<()> {
    let chunk = group.metadata().column(index);
    let mut pages = group
        .get_column_page_reader(index)
        .map_err(|error| error.to_string())?;
    let mut left =
        usize::try_from(chunk.num_values()).map_err(|_| "a negative number of values")?;
    let mut column = Column {
        leaf: chunk.column_descr(),
        words: None,
        indices: Vec::new(),
    };
    while left > 0 {
        match pages.get_next_page().map_err(|error| error.to_string())? {
            None => return Err(format!("{left} values are missing")),
            Some(Page::DictionaryPage {
                buf,
                num_values,
                encoding,
                ..
            }) => {
                column.set_dictionary(&buf, num_values as usize, encoding)?;
            }
            Some(Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                ..
            }) => {
                if def_level_encoding != Encoding::RLE || rep_level_encoding != Encoding::RLE {
                    return Err("levels are not run-length encoded".into());
                }
                let count = num_values as usize;
                left = left
                    .checked_sub(count)
                    .filter(|_| count > 0)
                    .ok_or("a page has another number of values than the footer says")?;
                column.read_page(&buf, count, encoding, values)?;
            }
            Some(Page::DataPageV2 { .. }) => {
                return Err("pages of version 2 are not used in recordings".into());
            }
        }
    }
    Ok(())
}

/// Checks that a column read whole has something for every row, and no more text than may be.
fn check_column(values: &Values, rows: usize, text_left: &mut usize) -> Result<()> {
    let lists = values.repeat.iter().filter(|repeat| **repeat == 0).count();
    if !values.repeat.is_empty() && lists != rows {
        return Err(format!("{lists} lists for {rows} rows"));
    }
    // A dictionary lets few bytes stand for much text: count before anything is copied.
    for text in &values.texts {
        let left = text_left.checked_sub(text.len());
        *text_left = left.ok_or_else(|| format!("more than {MAX_TEXT_BYTES} bytes of text"))?;
    }
    Ok(())
}

/// A column being read.
struct Column<'a> {
    leaf: &'a ColumnDescriptor,
    words: Option<Vec<ByteArray>>,
    indices: Vec<u32>,
}

impl Column<'_> {
    fn set_dictionary(&mut self, page: &Bytes, count: usize, encoding: Encoding) -> Result<()> {
        let plain = matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY);
        if self.words.is_some() || !plain || self.leaf.physical_type() != Physical::BYTE_ARRAY {
            return Err("a dictionary where none belongs".into());
        }
        let mut words = Vec::new();
        plain_texts(page, 0, count, &mut words)?;
        self.words = Some(words);
        Ok(())
    }

    /// Reads a page of `count` values, those that are null and empty lists included.
    fn read_page(
        &mut self,
        page: &Bytes,
        count: usize,
        encoding: Encoding,
        values: &mut Values,
    ) -> Result<()> {
        let mut rest = page.as_ref();
        if self.leaf.max_rep_level() > 0 {
            self.read_levels(take_prefixed(&mut rest)?, count, &mut values.repeat)?;
        }
        let mut present = count;
        if self.leaf.max_def_level() > 0 {
            let before = values.present.len();
            self.read_levels(take_prefixed(&mut rest)?, count, &mut values.present)?;
            present = values.present[before..]
                .iter()
                .filter(|level| **level != 0)
                .count();
        }
        match (self.leaf.physical_type(), encoding) {
            (Physical::INT32, Encoding::DELTA_BINARY_PACKED) => {
                values.ints.reserve(present);
                encodings::delta(rest, present, |value| values.ints.push(value as i32))?;
            }
            (Physical::INT64, Encoding::DELTA_BINARY_PACKED) => {
                values.longs.reserve(present);
                encodings::delta(rest, present, |value| values.longs.push(value))?;
            }
            (Physical::BOOLEAN, Encoding::PLAIN) => {
                encodings::plain_bools(rest, present, &mut values.bools)?
            }
            (Physical::BYTE_ARRAY, Encoding::PLAIN) => {
                plain_texts(page, page.len() - rest.len(), present, &mut values.texts)?;
            }
            (Physical::BYTE_ARRAY, Encoding::RLE_DICTIONARY) => {
                self.read_words(rest, present, &mut values.texts)?
            }
            (_, encoding) => {
                return Err(format!(
                    "encoding {encoding} is not used in recordings here"
                ));
            }
        }
        Ok(())
    }

    /// Reads levels, of which this format has 0 and 1.
    fn read_levels(&mut self, bytes: &[u8], count: usize, out: &mut Vec<i16>) -> Result<()> {
        self.indices.clear();
        encodings::run_length(bytes, 1, count, &mut self.indices)?;
        out.extend(self.indices.iter().map(|level| i16::from(*level != 0)));
        Ok(())
    }

    fn read_words(&mut self, bytes: &[u8], count: usize, out: &mut Vec<ByteArray>) -> Result<()> {
        let words = self.words.as_ref().ok_or("a dictionary is missing")?;
        self.indices.clear();
        encodings::dictionary(bytes, count, &mut self.indices)?;
        for index in &self.indices {
            let word = words
                .get(*index as usize)
                .ok_or("an index is beyond its dictionary")?;
            out.push(word.clone());
        }
        Ok(())
    }
}

/// Reads plain texts of a page from `start` on, sharing the page's memory.
fn plain_texts(page: &Bytes, start: usize, count: usize, out: &mut Vec<ByteArray>) -> Result<()> {
    let mut rest = &page[start..];
    for _ in 0..count {
        let text = take_prefixed(&mut rest)?;
        out.push(page.slice_ref(text).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::{Field, Kind};
    use crate::encode::{Format, encode};
    use crate::rows::EventRow;
    use crate::table::column_of;
    use parquet::schema::types::TypePtr;

    /// `events` as an older version would have had them: without `thread` and `detail`.
    #[derive(Clone, Default)]
    struct OldEvent {
        time_ns: u64,
        kind: String,
    }

    impl Table for OldEvent {
        const NAME: &'static str = "events";
        const KEYED: bool = false;
        fn key(&self) -> u64 {
            0
        }
    }

    impl Columns for OldEvent {
        fn columns() -> Vec<(TypePtr, Kind)> {
            vec![
                column_of(|row: &Self| &row.time_ns, "time_ns", Kind::Time),
                column_of(|row: &Self| &row.kind, "kind", Kind::Word),
            ]
        }
        fn gather<E>(
            rows: &[Self],
            values: &mut Values,
            mut write: impl FnMut(&Values) -> std::result::Result<(), E>,
        ) -> std::result::Result<(), E> {
            values.clear();
            Field::gather(rows.iter().map(|row| &row.time_ns), values);
            write(values)?;
            values.clear();
            Field::gather(rows.iter().map(|row| &row.kind), values);
            write(values)
        }
        fn scatter(
            _: &mut [Self],
            _: &mut Values,
            _: impl FnMut(&str, &mut Values) -> Result<bool>,
        ) -> Result<()> {
            Err("old rows are only written here".into())
        }
        fn heap_bytes(&self) -> usize {
            self.kind.heap_bytes()
        }
    }

    fn old_file() -> Vec<u8> {
        let rows = [1, 2, 3].map(|time_ns| OldEvent {
            time_ns,
            kind: format!("kind {time_ns}"),
        });
        let mut file = Vec::new();
        encode(
            &Format::of::<OldEvent>(None),
            &rows,
            &mut Values::default(),
            &mut file,
        )
        .unwrap();
        file
    }

    #[test]
    fn columns_that_an_older_version_lacks_keep_their_default() {
        let rows = decode::<EventRow>(old_file(), &["thread", "detail", "never"]).unwrap();
        let wanted = [1, 2, 3].map(|time_ns| EventRow {
            time_ns,
            kind: format!("kind {time_ns}"),
            ..EventRow::default()
        });
        assert_eq!(rows, wanted);
    }

    #[test]
    fn columns_that_may_not_be_absent_are_named() {
        let error = decode::<EventRow>(old_file(), &["detail"]).unwrap_err();
        assert_eq!(error, "column thread is missing");
    }
}
