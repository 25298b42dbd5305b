//! Where tracepoints have their fields, as the kernel that recorded them said (section `TRACING_DATA`).
use super::bytes::Bytes;
use rustc_hash::FxHashMap;

/// A field of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    offset: usize,
    size: usize,
}

/// A kind of tracepoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tracepoint {
    /// `sched_switch` …
    pub name: String,
    fields: FxHashMap<String, Field>,
}

impl Tracepoint {
    /// The value of a number in the bytes of an event.
    pub fn number(&self, name: &str, raw: &[u8]) -> Option<u64> {
        let field = self.fields.get(name)?;
        let bytes = raw.get(field.offset..field.offset.checked_add(field.size)?)?;
        let mut value = [0; 8];
        value.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(value))
    }
}

impl Tracepoint {
    /// A text of fixed room in the bytes of an event.
    pub fn text(&self, name: &str, raw: &[u8]) -> Option<String> {
        let field = self.fields.get(name)?;
        let bytes = raw.get(field.offset..field.offset.checked_add(field.size)?)?;
        Some(super::bytes::text(bytes))
    }
}

/// Every tracepoint of a file, by its id.
pub type Tracepoints = FxHashMap<u64, Tracepoint>;

/// Reads the section.
pub fn read(data: &[u8]) -> Option<Tracepoints> {
    let mut b = Bytes::new(data);
    if b.take(10)? != b"\x17\x08\x44tracing" {
        return None;
    }
    let _version = b.c_text()?;
    let _endian_and_long = b.take(2)?;
    let _page = b.u32()?;
    for _ in ["header_page", "header_event"] {
        let _name = b.c_text()?;
        let size = b.u64()?;
        b.take(size)?;
    }
    let mut found = Tracepoints::default();
    // Events of the kernel's own tracers, then those of each system.
    formats(&mut b, &mut found)?;
    let systems = b.u32()?;
    for _ in 0..systems {
        let _system = b.c_text()?;
        formats(&mut b, &mut found)?;
    }
    Some(found)
}

fn formats(b: &mut Bytes<'_>, found: &mut Tracepoints) -> Option<()> {
    let count = b.u32()?;
    for _ in 0..count {
        let size = b.u64()?;
        let text = String::from_utf8_lossy(b.take(size)?);
        if let Some((id, tracepoint)) = format(&text) {
            found.insert(id, tracepoint);
        }
    }
    Some(())
}

/// The text of `/sys/kernel/tracing/events/SYSTEM/NAME/format`.
fn format(text: &str) -> Option<(u64, Tracepoint)> {
    let mut tracepoint = Tracepoint::default();
    let mut id = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("name: ") {
            tracepoint.name = name.trim().into();
        } else if let Some(number) = line.strip_prefix("ID: ") {
            id = number.trim().parse().ok();
        } else if let Some((name, field)) = field(line) {
            tracepoint.fields.insert(name, field);
        }
    }
    Some((id?, tracepoint))
}

/// `\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;`
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?;
    let name = declaration.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
    let offset = number("offset:")?;
    let size = number("size:")?;
    Some((name.into(), Field { offset, size }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_says_where_fields_are() {
        let text = "name: sched_switch\nID: 372\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
            \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
            \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
            \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\n\
            print fmt: \"prev_comm=%s\", REC->prev_comm\n";
        let (id, tracepoint) = format(text).unwrap();
        assert_eq!((id, tracepoint.name.as_str()), (372, "sched_switch"));
        let mut raw = [0u8; 40];
        raw[24] = 7;
        raw[33] = 1;
        assert_eq!(tracepoint.number("prev_pid", &raw), Some(7));
        assert_eq!(tracepoint.number("prev_state", &raw), Some(256));
        assert_eq!(tracepoint.number("prev_state", &raw[..39]), None);
        assert_eq!(tracepoint.number("no_such", &raw), None);
    }
}
