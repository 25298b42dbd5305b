//! Rows of one table to the bytes of a Parquet file: a segment, or a whole table where it stands alone.
use crate::column::{Field, Kind, Values};
use crate::decode::MAX_ROWS;
use crate::error::RecordingError;
use crate::table::Table;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::column::writer::{ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesPtr, WriterVersion,
};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type, TypePtr};
use std::io::Write;
use std::sync::Arc;

/// The Parquet schema of a table and how its columns are encoded; made once, shared by its segments.
#[derive(Clone)]
pub struct Format {
    schema: TypePtr,
    properties: WriterPropertiesPtr,
    /// What the column `recording` holds, which tables have that are kept beside those of others.
    recording: Option<ByteArray>,
}

impl Format {
    /// The format of table `R`; with the name of its recording in a further column, if there is one.
    pub fn of<R: Table>(recording: Option<&str>) -> Self {
        let mut columns = R::columns();
        columns.extend(recording.map(|_| (String::column("recording", Kind::Word), Kind::Word)));
        let fields = columns
            .iter()
            .map(|(column, _)| Arc::clone(column))
            .collect();
        let schema = Type::group_type_builder(R::NAME)
            .with_fields(fields)
            .build();
        let schema = Arc::new(schema.expect("the schema is a constant of this crate"));
        // dwell itself reads none of those, and they are many.
        let compression = match recording {
            Some(_) => Compression::SNAPPY,
            None => Compression::UNCOMPRESSED,
        };
        let kinds: Vec<Kind> = columns.iter().map(|(_, kind)| *kind).collect();
        Self {
            properties: Arc::new(properties(&schema, &kinds, compression)),
            schema,
            recording: recording.map(ByteArray::from),
        }
    }
}

/// Delta encoding for numbers, a dictionary for words, minimum and maximum for instants. Every
/// column of every table is one leaf, so leaves and kinds run in step.
fn properties(schema: &TypePtr, kinds: &[Kind], compression: Compression) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(concat!("dwell-recording ", env!("CARGO_PKG_VERSION")).to_string())
        .set_compression(compression)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true);
    for (leaf, kind) in SchemaDescriptor::new(Arc::clone(schema))
        .columns()
        .iter()
        .zip(kinds)
    {
        let path = leaf.path().clone();
        builder = match leaf.physical_type() {
            Physical::INT32 | Physical::INT64 => {
                builder.set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED)
            }
            Physical::BYTE_ARRAY => {
                builder.set_column_dictionary_enabled(path.clone(), *kind == Kind::Word)
            }
            _ => builder,
        };
        if *kind == Kind::Time {
            builder = builder.set_column_statistics_enabled(path, EnabledStatistics::Chunk);
        }
    }
    builder.build()
}

/// Encodes rows as one Parquet file, which replaces the contents of `out`.
pub fn encode<R: Table>(
    format: &Format,
    rows: &[R],
    values: &mut Values,
    out: &mut Vec<u8>,
) -> Result<(), RecordingError> {
    out.clear();
    write_rows(format, rows, values, out).map_err(|error| RecordingError::Encode {
        table: R::NAME,
        reason: error.to_string(),
    })
}

fn write_rows<R: Table>(
    format: &Format,
    rows: &[R],
    values: &mut Values,
    out: &mut Vec<u8>,
) -> ParquetResult<()> {
    let (schema, properties) = (Arc::clone(&format.schema), Arc::clone(&format.properties));
    let leaves = SchemaDescriptor::new(Arc::clone(&format.schema));
    let mut file = SerializedFileWriter::new(out, schema, properties)?;
    // A table without rows has its columns all the same.
    let groups = rows.chunks(MAX_ROWS);
    let empty = rows.is_empty().then_some(rows);
    for rows in groups.chain(empty) {
        write_group(&mut file, &leaves, format, rows, values)?;
    }
    file.close()?;
    Ok(())
}

/// Rows that are gathered at a time, each column of them in turn: so many that they stay in a processor's own cache meanwhile.
const GATHERED_ROWS: usize = 1 << 11;

/// All columns are written side by side, each into memory of its own, since the rows are gone through once.
fn write_group<R: Table>(
    file: &mut SerializedFileWriter<impl Write + Send>,
    leaves: &SchemaDescriptor,
    format: &Format,
    rows: &[R],
    values: &mut Values,
) -> ParquetResult<()> {
    let leaves = leaves.columns();
    let sink = |_| TrackedWrite::new(Vec::new());
    let mut sinks: Vec<_> = leaves.iter().map(sink).collect();
    let writer = |(leaf, sink)| {
        let pages = Box::new(SerializedPageWriter::new(sink));
        get_column_writer(Arc::clone(leaf), Arc::clone(&format.properties), pages)
    };
    let mut columns: Vec<_> = leaves.iter().zip(&mut sinks).map(writer).collect();
    for rows in rows.chunks(GATHERED_ROWS) {
        let mut column = columns.iter_mut().zip(leaves);
        let mut write = |values: &Values| match column.next() {
            Some((column, leaf)) => write_column(column, leaf, values),
            None => Err(ParquetError::General(
                "more columns than the schema has".into(),
            )),
        };
        R::gather(rows, values, &mut write)?;
        if let Some(recording) = &format.recording {
            values.clear();
            values.texts.resize(rows.len(), recording.clone());
            write(values)?;
        }
    }
    let closed: ParquetResult<Vec<_>> = columns.into_iter().map(ColumnWriter::close).collect();
    let mut group = file.next_row_group()?;
    for (sink, closed) in sinks.into_iter().zip(closed?) {
        group.append_column(&Bytes::from(sink.into_inner()?), closed)?;
    }
    group.close()?;
    Ok(())
}

fn write_column(
    column: &mut ColumnWriter<'_>,
    leaf: &ColumnDescriptor,
    values: &Values,
) -> ParquetResult<()> {
    let present = (leaf.max_def_level() > 0).then_some(values.present.as_slice());
    let repeat = (leaf.max_rep_level() > 0).then_some(values.repeat.as_slice());
    match column {
        ColumnWriter::Int32ColumnWriter(column) => {
            column.write_batch(&values.ints, present, repeat)?
        }
        ColumnWriter::Int64ColumnWriter(column) => {
            column.write_batch(&values.longs, present, repeat)?
        }
        ColumnWriter::BoolColumnWriter(column) => {
            column.write_batch(&values.bools, present, repeat)?
        }
        ColumnWriter::ByteArrayColumnWriter(column) => {
            column.write_batch(&values.texts, present, repeat)?
        }
        _ => {
            return Err(ParquetError::General("a type that no column has".into()));
        }
    };
    Ok(())
}
