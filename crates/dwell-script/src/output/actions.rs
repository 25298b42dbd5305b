//! What each action does when its record is printed.

use std::io;

use super::bytes::dump;
use super::format::Format;
use super::messages;
use super::options::OptionError;
use super::printa::Tables;
use super::printer::{Outcome, Printer};
use super::printf::{self, Arguments};
use super::trace::{self, Context};
use super::{OutputError, World, data, print};
use crate::schema::{ActionKind, AggregationId, Field, FieldKind, RecordHeader};
use crate::types::TypeId;

/// Options of others that `setopt()` may change.
const RATES: [&str; 3] = ["aggrate", "statusrate", "switchrate"];

/// A record whose actions are carried out.
pub struct Firing<'f> {
    /// Its header.
    pub header: &'f RecordHeader,
    /// Its bytes.
    pub data: &'f [u8],
    /// Text that was not written yet.
    pub text: Vec<u8>,
    /// What the caller is to do.
    pub outcome: &'f mut Outcome,
    /// Speculations that end with this record, and whether they are to be printed.
    pub ended: &'f mut Vec<(u32, bool)>,
}

impl Firing<'_> {
    /// Hands on what was printed so far.
    pub fn flush(&mut self, world: &mut World) -> io::Result<()> {
        world.out.write_all(&self.text)?;
        self.text.clear();
        Ok(())
    }
}

impl Printer<'_> {
    /// Carries out one action; `format` is its format, taken apart.
    pub(super) fn act(
        &mut self,
        action: &ActionKind,
        format: Option<&Format>,
        firing: &mut Firing,
        world: &mut World,
    ) -> Result<(), OutputError> {
        match action {
            ActionKind::Exit(status) => {
                firing.outcome.exit = Some(data::integer(status, firing.data)? as i32);
            }
            ActionKind::Speculate(_) => {}
            ActionKind::Commit(id) => {
                let id = data::integer(id, firing.data)? as u32;
                firing.ended.push((id, true));
            }
            ActionKind::Discard(id) => {
                let id = data::integer(id, firing.data)? as u32;
                firing.ended.push((id, false));
            }
            ActionKind::System { fields, .. } => {
                let command = self.formatted(format, fields, firing, world)?;
                firing.flush(world)?;
                world.out.flush()?;
                world.out.run(&command)?;
            }
            ActionKind::Freopen { fields, .. } => {
                let file = self.formatted(format, fields, firing, world)?;
                self.reopen(&file, firing, world)?;
            }
            ActionKind::Setopt { name, value } => {
                self.set_option(name, value.as_deref(), firing, world);
            }
            action => return self.show(action, format, firing, world),
        }
        Ok(())
    }

    /// Carries out an action that prints, or one on aggregations.
    fn show(
        &mut self,
        action: &ActionKind,
        format: Option<&Format>,
        firing: &mut Firing,
        world: &mut World,
    ) -> Result<(), OutputError> {
        let data = firing.data;
        let mut context = Context {
            options: &self.options,
            names: world.names,
        };
        match action {
            ActionKind::Trace(field) => trace::value(&mut firing.text, field, data, &mut context),
            ActionKind::Tracemem { bytes, length } => {
                tracemem(&mut firing.text, bytes, length.as_ref(), data)
            }
            ActionKind::Print(value) => self.print(None, value, firing),
            ActionKind::PrintAt { address, value } => self.print(Some(address), value, firing),
            ActionKind::Printf { fields, .. } => match format {
                Some(format) => {
                    let arguments = Arguments::of(fields, data);
                    printf::print(&mut firing.text, format, arguments, &mut context)
                }
                None => Ok(()),
            },
            action => {
                firing.flush(world)?;
                self.aggregated(action, format, data, world)
            }
        }
    }

    /// Carries out an action on aggregations.
    fn aggregated(
        &mut self,
        action: &ActionKind,
        format: Option<&Format>,
        data: &[u8],
        world: &mut World,
    ) -> Result<(), OutputError> {
        match action {
            ActionKind::Printa { aggregations, .. } => {
                return self.tables(world, |tables, states| {
                    tables.printa(states, format, aggregations)
                });
            }
            ActionKind::Trunc(id, keep) => {
                let keep = keep.as_ref().map(|keep| data::signed_integer(keep, data));
                let keep = keep.transpose()?.unwrap_or(0);
                return self.tables(world, |tables, _| tables.truncate(*id, keep));
            }
            ActionKind::Clear(id) => world.aggregations.clear(self.known(*id)?),
            ActionKind::Normalize(id, divisor) => {
                let divisor = data::integer(divisor, data)?;
                let id = self.known(*id)?;
                self.states.normalize(id, divisor);
            }
            ActionKind::Denormalize(id) => {
                let id = self.known(*id)?;
                self.states.normalize(id, 1);
            }
            _ => {}
        }
        Ok(())
    }

    /// The aggregation, if the script has it.
    fn known(&self, id: AggregationId) -> Result<AggregationId, OutputError> {
        match self.layout.aggregations.get(id.0 as usize) {
            Some(_) => Ok(id),
            None => Err(OutputError::Aggregation(id.0)),
        }
    }

    /// `print`, of memory at an address or of a value.
    fn print(
        &self,
        address: Option<&Field>,
        value: &Field,
        firing: &mut Firing,
    ) -> Result<(), OutputError> {
        let bytes = data::bytes(value, firing.data)?;
        if let Some(address) = address {
            let address = data::integer(address, firing.data)?;
            firing
                .text
                .extend_from_slice(format!("{address:#x} = *").as_bytes());
        }
        firing.text.push(b'\n');
        match typed(value) {
            Some(ty) => {
                let limit = self.options.print_size;
                print::value(&mut firing.text, self.layout.types, ty, bytes, limit);
            }
            None => dump(&mut firing.text, bytes),
        }
        Ok(())
    }

    /// A format with its arguments, by itself.
    fn formatted(
        &self,
        format: Option<&Format>,
        fields: &[Field],
        firing: &Firing,
        world: &mut World,
    ) -> Result<Vec<u8>, OutputError> {
        let mut text = Vec::new();
        let mut context = Context {
            options: &self.options,
            names: world.names,
        };
        if let Some(format) = format {
            let arguments = Arguments::of(fields, firing.data);
            printf::print(&mut text, format, arguments, &mut context)?;
        }
        Ok(text)
    }

    /// Goes on in another file. One that cannot be opened is said so, and the output goes on where it went.
    fn reopen(
        &mut self,
        file: &[u8],
        firing: &mut Firing,
        world: &mut World,
    ) -> Result<(), OutputError> {
        firing.flush(world)?;
        world.out.flush()?;
        let to = (!file.is_empty()).then_some(file);
        if let Err(error) = world.out.reopen(to) {
            let file = String::from_utf8_lossy(file);
            let what = format!("couldn't freopen() \"{file}\": {error}");
            self.complain(firing, world, &what);
        }
        Ok(())
    }

    /// Sets an option of the printer's, or hands it on if it is another's that may change while a script runs.
    fn set_option(
        &mut self,
        name: &str,
        value: Option<&str>,
        firing: &mut Firing,
        world: &mut World,
    ) {
        let value = value.unwrap_or("1");
        let why = match self.options.set(name, value) {
            Ok(()) => return,
            Err(error @ OptionError::Value) => error.to_string(),
            Err(OptionError::Name) => match crate::Options::default().set(name, Some(value)) {
                Err(error) => error.to_string(),
                Ok(()) if RATES.contains(&name) => {
                    firing.outcome.options.push((name.into(), value.into()));
                    return;
                }
                Ok(()) => "Operation illegal when tracing is active".to_owned(),
            },
        };
        let what = format!("couldn't set option \"{name}\" to \"{value}\": {why}");
        self.complain(firing, world, &what);
    }

    /// Says what went wrong with a record.
    pub(super) fn complain(&self, firing: &mut Firing, world: &mut World, what: &str) {
        let RecordHeader { clause, probe, .. } = *firing.header;
        let unknown = Default::default();
        let name = world.names.probe(probe).unwrap_or(&unknown);
        let message = messages::error(clause, (probe, name), what);
        firing.outcome.messages.push(message);
    }

    /// Does something with the aggregations.
    pub(super) fn tables<R>(
        &mut self,
        world: &mut World,
        with: impl FnOnce(&mut Tables, &mut super::printa::States) -> R,
    ) -> R {
        let mut tables = Tables {
            layout: self.layout,
            options: &self.options,
            aggregations: world.aggregations,
            names: world.names,
            out: world.out,
        };
        with(&mut tables, &mut self.states)
    }
}

/// `tracemem`: as many bytes as the length says, all if that is negative or more than there are.
fn tracemem(
    text: &mut Vec<u8>,
    bytes: &Field,
    length: Option<&Field>,
    data: &[u8],
) -> Result<(), OutputError> {
    let bytes = data::bytes(bytes, data)?;
    let length = match length {
        Some(field) if field.kind == (FieldKind::Int { signed: true }) => {
            usize::try_from(data::signed_integer(field, data)?).ok()
        }
        Some(field) => usize::try_from(data::integer(field, data)?).ok(),
        None => None,
    };
    let shown = length.unwrap_or(bytes.len()).min(bytes.len());
    dump(text, &bytes[..shown]);
    Ok(())
}

/// The type of a field that has one.
fn typed(field: &Field) -> Option<TypeId> {
    match field.kind {
        FieldKind::Typed(ty) => Some(ty),
        _ => None,
    }
}
