//! The tables of fields and types (`vmStructs.hpp`), which tell their own layout by further variables.
use dwell_maps::{Kept, Memory};
use std::collections::HashMap;

/// Most entries of a table: there are about a thousand.
const MOST_ENTRIES: u64 = 20_000;

/// A field of a class of the JVM.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its type, as C++ calls it; empty where the table does not say.
    pub kind: String,
    /// Offset in its object, bytes; for static ones 0.
    pub offset: u64,
    /// Address of a static one, else 0.
    pub address: u64,
}

/// Fields by `Class::field`, and sizes of types, bytes.
pub struct Structs {
    fields: HashMap<String, Field>,
    sizes: HashMap<String, u64>,
}

impl Structs {
    /// Reads both tables. `symbol` gives the actual address of a variable of `libjvm.so`.
    pub fn read(memory: &impl Memory, symbol: impl Fn(&str) -> Option<u64>) -> Option<Self> {
        let memory = Kept::new(memory);
        let variable = |name: &str| memory.word(symbol(&format!("{}{name}", crate::SYMBOLS))?);
        let text = |at: u64| match memory.word(at)? {
            0 => None,
            address => memory.string(address),
        };
        let mut fields = HashMap::new();
        let of_entry = |name: &str| variable(&format!("StructEntry{name}"));
        let [class, field, kind, offset, address] = [
            of_entry("TypeNameOffset")?,
            of_entry("FieldNameOffset")?,
            of_entry("TypeStringOffset")?,
            of_entry("OffsetOffset")?,
            of_entry("AddressOffset")?,
        ];
        for at in entries(variable("Structs")?, of_entry("ArrayStride")?) {
            let (Some(class), Some(field)) =
                (text(at.wrapping_add(class)), text(at.wrapping_add(field)))
            else {
                break;
            };
            let field_of_it = Field {
                kind: text(at.wrapping_add(kind)).unwrap_or_default(),
                offset: memory.word(at.wrapping_add(offset))?,
                address: memory.word(at.wrapping_add(address))?,
            };
            fields.insert(format!("{class}::{field}"), field_of_it);
        }
        let mut sizes = HashMap::new();
        let of_entry = |name: &str| variable(&format!("TypeEntry{name}"));
        let [name, size] = [of_entry("TypeNameOffset")?, of_entry("SizeOffset")?];
        for at in entries(variable("Types")?, of_entry("ArrayStride")?) {
            let Some(name) = text(at.wrapping_add(name)) else {
                break;
            };
            sizes.insert(name, memory.word(at.wrapping_add(size))?);
        }
        Some(Structs { fields, sizes })
    }

    /// A field by the first of these names that there is: they differ between versions.
    pub fn field(&self, names: &[&str]) -> Option<&Field> {
        names.iter().find_map(|name| self.fields.get(*name))
    }

    /// The offset of such a field.
    pub fn offset(&self, names: &[&str]) -> Option<u64> {
        self.field(names).map(|field| field.offset)
    }

    /// The address of a static one.
    pub fn address(&self, name: &str) -> Option<u64> {
        let address = self.fields.get(name)?.address;
        (address != 0).then_some(address)
    }

    /// The size of a type, bytes.
    pub fn size(&self, name: &str) -> Option<u64> {
        self.sizes.get(name).copied()
    }
}

fn entries(first: u64, stride: u64) -> impl Iterator<Item = u64> {
    (0..MOST_ENTRIES).map(move |n| first.wrapping_add(n.wrapping_mul(stride)))
}
