//! Rows of one table to the bytes of a Parquet file: a segment, or a whole table where it stands alone.
use crate::column::{Field, Kind, Values};
use crate::decode::MAX_ROWS;
use crate::error::RecordingError;
use crate::table::Table;
use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesPtr, WriterVersion,
};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
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

fn write_group<R: Table>(
    file: &mut SerializedFileWriter<impl Write + Send>,
    leaves: &SchemaDescriptor,
    format: &Format,
    rows: &[R],
    values: &mut Values,
) -> ParquetResult<()> {
    let mut group = file.next_row_group()?;
    let mut leaf = leaves.columns().iter();
    let mut write = |values: &Values| {
        let (Some(leaf), Some(mut column)) = (leaf.next(), group.next_column()?) else {
            return Err(ParquetError::General(
                "more columns than the schema has".into(),
            ));
        };
        write_column(&mut column, leaf, values)?;
        column.close()
    };
    R::gather(rows, values, &mut write)?;
    if let Some(recording) = &format.recording {
        values.clear();
        values.texts.resize(rows.len(), recording.clone());
        write(values)?;
    }
    group.close()?;
    Ok(())
}

fn write_column(
    column: &mut SerializedColumnWriter<'_>,
    leaf: &ColumnDescriptor,
    values: &Values,
) -> ParquetResult<()> {
    let present = (leaf.max_def_level() > 0).then_some(values.present.as_slice());
    let repeat = (leaf.max_rep_level() > 0).then_some(values.repeat.as_slice());
    match leaf.physical_type() {
        Physical::INT32 => {
            column
                .typed::<Int32Type>()
                .write_batch(&values.ints, present, repeat)?
        }
        Physical::INT64 => {
            column
                .typed::<Int64Type>()
                .write_batch(&values.longs, present, repeat)?
        }
        Physical::BOOLEAN => {
            column
                .typed::<BoolType>()
                .write_batch(&values.bools, present, repeat)?
        }
        _ => column
            .typed::<ByteArrayType>()
            .write_batch(&values.texts, present, repeat)?,
    };
    Ok(())
}
