//! Where variables are, and variables within functions.
use gimli::{AttributeValue, Operation};

use super::{Debug, Entry, Index, Kind, Named};

/// Where a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// At this stated address.
    Stated(u64),
    /// So many bytes from the start of the module's thread-local block.
    ThreadLocal(u64),
}

impl Entry<'_, '_> {
    /// The fixed place of a variable.
    pub(crate) fn location(&self) -> Option<Location> {
        let AttributeValue::Exprloc(expression) = self.value(gimli::DW_AT_location)? else {
            return None;
        };
        let mut operations = expression.operations(self.unit.encoding());
        let dwarf = self.debug.dwarf(self.place.shared);
        let address = match operations.next().ok()?? {
            Operation::Address { address } => address,
            Operation::AddressIndex { index } | Operation::ConstantIndex { index } => {
                dwarf.address(self.unit, index).ok()?
            }
            Operation::UnsignedConstant { value } => value,
            Operation::SignedConstant { value } => value as u64,
            _ => return None,
        };
        match operations.next().ok()? {
            None => Some(Location::Stated(address)),
            Some(Operation::TLS) => Some(Location::ThreadLocal(address)),
            Some(_) => None,
        }
    }
}

/// Of the variables of a name the one that is meant: one that all units know before a unit's own, of several of
/// those the first unit's in the order in which they were linked.
pub(crate) fn chosen(named: &[Named], kind: Kind) -> Option<&Named> {
    let of_kind = || named.iter().filter(|named| named.kind == kind);
    of_kind().find(|named| named.external).or(of_kind().next())
}

impl<'m> Debug<'m> {
    /// A variable by `name`, `function::name` (one that outlives the function's calls) or `file.c::name`.
    pub(crate) fn variable(&self, name: &str) -> Option<Entry<'_, 'm>> {
        let index: &Index = self.index();
        if let Some(named) = chosen(index.named(name), Kind::Variable) {
            return self.entry(named.place);
        }
        let (scope, name) = name.rsplit_once("::")?;
        let functions = index
            .named(scope)
            .iter()
            .filter(|named| named.kind == Kind::Function);
        let mut functions = functions.filter_map(|named| self.entry(named.place));
        let inside = functions.find_map(|function| {
            let variables = function.below(|_, tag| tag == gimli::DW_TAG_variable);
            let mut named = variables
                .into_iter()
                .filter(|variable| variable.inherited(|entry| entry.name()) == Some(name));
            named.find(|variable| variable.location().is_some())
        });
        inside.or_else(|| {
            let named = index.named(name).iter();
            let mut variables = named.filter(|named| named.kind == Kind::Variable);
            let found = variables.find(|named| self.is_in_file(named, scope))?;
            self.entry(found.place)
        })
    }

    /// A variable that is only declared here.
    pub(crate) fn declared_variable(&self, name: &str) -> Option<Entry<'_, 'm>> {
        let named = chosen(self.index().named(name), Kind::DeclaredVariable)?;
        self.entry(named.place)
    }

    fn is_in_file(&self, named: &Named, file: &str) -> bool {
        let root = self
            .unit(named.place.shared, named.place.unit)
            .map(|unit| super::Place {
                offset: unit.header.header_size(),
                ..named.place
            });
        let root = root.and_then(|root| self.entry(root));
        let path = root.and_then(|root| root.name()).unwrap_or_default();
        path == file || path.rsplit('/').next() == Some(file)
    }
}
