//! A profile's tables, and its samples one by one: all of them at once would take many times the file.
use crate::ImportError;
use dwell_pprof::{Function, Location, Mapping, Sample, ValueType};
use prost::Message;
use rustc_hash::FxHashMap;

/// Most strings, locations, functions and mappings together.
const MAX_ROWS: usize = 8 << 20;

/// All but the samples.
#[derive(Default)]
pub struct Tables<'b> {
    /// What the values of a sample are.
    pub sample_type: Vec<ValueType>,
    /// Start, ns since 1970.
    pub time_nanos: i64,
    /// Length, ns.
    pub duration_nanos: i64,
    /// What the period counts.
    pub period_type: Option<ValueType>,
    /// Distance of two samples.
    pub period: i64,
    strings: Vec<&'b str>,
    mappings: FxHashMap<u64, Mapping>,
    locations: FxHashMap<u64, Location>,
    functions: FxHashMap<u64, Function>,
}

/// A field of the outermost message.
enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
    Other,
}

/// The fields of a message.
struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, len: u64) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u64, Field<'b>)> {
        let key = self.number()?;
        let field = match key & 7 {
            0 => Field::Number(self.number()?),
            2 => {
                let len = self.number()?;
                Field::Bytes(self.take(len)?)
            }
            1 => {
                self.take(8)?;
                Field::Other
            }
            5 => {
                self.take(4)?;
                Field::Other
            }
            _ => return None,
        };
        Some((key >> 3, field))
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u64, Field<'b>), ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(
            field
                .ok_or_else(|| ImportError::Pprof("no profile.proto, damaged or cut short".into())),
        )
    }
}

fn decoded<M: Message + Default>(bytes: &[u8]) -> Result<M, ImportError> {
    M::decode(bytes).map_err(|e| ImportError::Pprof(format!("damaged: {e}")))
}

/// Reads all but the samples.
pub fn tables(bytes: &[u8]) -> Result<Tables<'_>, ImportError> {
    let mut tables = Tables::default();
    for field in (Fields { rest: bytes }) {
        match field? {
            (1, Field::Bytes(b)) => tables.sample_type.push(decoded(b)?),
            (3, Field::Bytes(b)) => {
                let row: Mapping = decoded(b)?;
                tables.mappings.insert(row.id, row);
            }
            (4, Field::Bytes(b)) => {
                let row: Location = decoded(b)?;
                tables.locations.insert(row.id, row);
            }
            (5, Field::Bytes(b)) => {
                let row: Function = decoded(b)?;
                tables.functions.insert(row.id, row);
            }
            (6, Field::Bytes(b)) => tables.strings.push(
                std::str::from_utf8(b)
                    .map_err(|_| ImportError::Pprof("a string is not UTF-8".into()))?,
            ),
            (9, Field::Number(n)) => tables.time_nanos = n as i64,
            (10, Field::Number(n)) => tables.duration_nanos = n as i64,
            (11, Field::Bytes(b)) => tables.period_type = Some(decoded(b)?),
            (12, Field::Number(n)) => tables.period = n as i64,
            _ => {}
        }
        let rows = tables.strings.len()
            + tables.locations.len()
            + tables.functions.len()
            + tables.mappings.len();
        if rows > MAX_ROWS || tables.sample_type.len() > 1000 {
            return Err(ImportError::Pprof("more rows than any profile has".into()));
        }
    }
    Ok(tables)
}

impl Tables<'_> {
    /// A string by its number; empty where there is none.
    pub fn text(&self, number: i64) -> &str {
        let at = usize::try_from(number).ok();
        at.and_then(|at| self.strings.get(at))
            .copied()
            .unwrap_or_default()
    }

    /// A location by its number.
    pub fn location(&self, id: u64) -> Option<&Location> {
        self.locations.get(&id)
    }

    /// A function by its number.
    pub fn function(&self, id: u64) -> Option<&Function> {
        self.functions.get(&id)
    }

    /// A mapping by its number.
    pub fn mapping(&self, id: u64) -> Option<&Mapping> {
        self.mappings.get(&id)
    }

    /// Every sample.
    pub fn samples<'b>(
        &self,
        bytes: &'b [u8],
    ) -> impl Iterator<Item = Result<Sample, ImportError>> + use<'b> {
        (Fields { rest: bytes }).filter_map(|field| match field {
            Ok((2, Field::Bytes(b))) => Some(decoded(b)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }
}
