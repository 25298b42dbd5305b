//! What has a name outside of functions: variables, functions, types, enumerators.
//!
//! Names are as C++ qualifies them; an anonymous namespace leaves no trace in them.
use std::collections::HashMap;

use gimli::{AttributeValue, DwTag, EntriesRaw, UnitOffset};

use super::{Debug, Place, Slice, Unit};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A variable that has a place.
    Variable,
    /// A variable that another unit defines.
    DeclaredVariable,
    Function,
    /// A base type or typedef.
    Type,
    /// A structure or class.
    Structure,
    Union,
    Enumeration,
    /// One name of an enumeration, whose place this is.
    Enumerator(i64),
}

/// An entry with a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    /// Other units see it, too.
    pub(crate) external: bool,
    /// In its language types go without a keyword.
    pub(crate) without_keyword: bool,
}

/// The entries of a module by name, in the order of its units.
#[derive(Debug, Default)]
pub(crate) struct Index {
    names: HashMap<Box<str>, Vec<Named>>,
    /// Functions by the name that the linker knows.
    linked: HashMap<Box<str>, Place>,
    /// The names of types in namespaces and classes.
    qualified: HashMap<Place, Box<str>>,
}

impl Index {
    pub(super) fn read(debug: &Debug<'_>) -> Index {
        let mut index = Index::default();
        for root in debug.roots() {
            let Some(unit) = debug.unit(root.shared, root.unit) else {
                continue;
            };
            let mut walk = Walk {
                debug,
                unit,
                root,
                without_keyword: has_classes(unit),
                scopes: Vec::new(),
                declared: HashMap::new(),
                index: &mut index,
            };
            // Damage ends the walk; what was found before it stands.
            let _ = walk.unit();
        }
        index
    }

    /// The entries of a name.
    pub(crate) fn named(&self, name: &str) -> &[Named] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }

    /// The function that the linker knows by a name.
    pub(crate) fn linked(&self, name: &str) -> Option<Place> {
        self.linked.get(name).copied()
    }

    /// The full name of a type, if that is more than its own.
    pub(super) fn qualified(&self, place: Place) -> Option<&str> {
        self.qualified.get(&place).map(|name| &**name)
    }

    /// Names of variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        let is_variable =
            |named: &Named| matches!(named.kind, Kind::Variable | Kind::DeclaredVariable);
        let all = self.names.iter();
        all.filter(move |(_, named)| named.iter().any(is_variable))
            .map(|(name, _)| &**name)
    }
}

/// Whether a unit's language is one in which a class' name alone is a type.
fn has_classes(unit: &Unit<'_>) -> bool {
    let Some(root) = unit.entry(unit.header.root_offset()).ok() else {
        return false;
    };
    let Some(AttributeValue::Language(language)) = root.attr_value(gimli::DW_AT_language) else {
        return false;
    };
    !matches!(
        language,
        gimli::DW_LANG_C
            | gimli::DW_LANG_C89
            | gimli::DW_LANG_C99
            | gimli::DW_LANG_C11
            | gimli::DW_LANG_C17
            | gimli::DW_LANG_Mips_Assembler
    )
}

/// A walk through one unit.
struct Walk<'w, 'm> {
    debug: &'w Debug<'m>,
    unit: &'w Unit<'m>,
    root: Place,
    without_keyword: bool,
    /// The open namespaces and classes: their depth, and what stands before the names in them.
    scopes: Vec<(isize, String)>,
    /// The full names of what is declared, in namespaces and classes mostly, and defined elsewhere.
    declared: HashMap<usize, Box<str>>,
    index: &'w mut Index,
}

/// The attributes that matter here.
#[derive(Default)]
struct Attributes<'m> {
    name: Option<&'m str>,
    linkage: Option<&'m str>,
    sibling: Option<UnitOffset>,
    specification: Option<usize>,
    has_place: bool,
    declaration: bool,
    external: bool,
    enum_class: bool,
    value: Option<i64>,
}

impl<'m> Walk<'_, 'm> {
    fn unit(&mut self) -> gimli::Result<()> {
        let unit = self.unit;
        let mut entries = unit.entries_raw(None)?;
        // Depths count from where `entries` began.
        let mut base = 0;
        let mut enumeration = None;
        while !entries.is_empty() {
            let at = entries.next_offset();
            let depth = base + entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            let mut attributes = Attributes::default();
            for spec in abbreviation.attributes() {
                let attribute = entries.read_attribute(*spec)?;
                self.take(&mut attributes, attribute.name(), attribute.value());
            }
            while self.scopes.last().is_some_and(|(open, _)| *open >= depth) {
                self.scopes.pop();
            }
            let tag = abbreviation.tag();
            if tag == gimli::DW_TAG_enumeration_type {
                enumeration = Some((at.0, attributes.enum_class));
            }
            if tag == gimli::DW_TAG_enumerator {
                self.enumerator(&attributes, enumeration.map_or(at.0, |(at, _)| at));
            } else {
                self.entry(tag, &attributes, at.0);
            }
            if !abbreviation.has_children() {
                continue;
            }
            if let Some(prefix) = self.opened(tag, &attributes) {
                self.scopes.push((depth, prefix));
            } else if let Some(sibling) = attributes.sibling.filter(|sibling| sibling.0 > at.0) {
                entries = unit.entries_raw(Some(sibling))?;
                base = depth;
            } else {
                skip(&mut entries, depth - base)?;
            }
        }
        Ok(())
    }

    fn take(&self, into: &mut Attributes<'m>, name: gimli::DwAt, value: AttributeValue<Slice<'m>>) {
        let text = |value| {
            let dwarf = self.debug.dwarf(self.root.shared);
            let text = dwarf.attr_string(self.unit, value).ok()?;
            std::str::from_utf8(text.slice()).ok()
        };
        match name {
            gimli::DW_AT_name => into.name = text(value),
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                into.linkage = text(value);
            }
            gimli::DW_AT_sibling => {
                if let AttributeValue::UnitRef(offset) = value {
                    into.sibling = Some(offset);
                }
            }
            gimli::DW_AT_specification => {
                if let AttributeValue::UnitRef(offset) = value {
                    into.specification = Some(offset.0);
                }
            }
            gimli::DW_AT_location => into.has_place = true,
            gimli::DW_AT_declaration => into.declaration = true,
            gimli::DW_AT_external => into.external = true,
            gimli::DW_AT_enum_class => into.enum_class = true,
            gimli::DW_AT_const_value => {
                into.value = match value {
                    AttributeValue::Sdata(value) => Some(value),
                    value => value.udata_value().map(|value| value as i64),
                };
            }
            _ => {}
        }
    }

    /// What stands before the names in a scope that is looked into; none for one that is not.
    fn opened(&self, tag: DwTag, attributes: &Attributes<'m>) -> Option<String> {
        match tag {
            gimli::DW_TAG_namespace => Some(match attributes.name {
                Some(name) => format!("{}{name}::", self.prefix()),
                None => self.prefix().to_owned(),
            }),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let name = attributes.name.filter(|_| self.without_keyword)?;
                Some(format!("{}{name}::", self.prefix()))
            }
            gimli::DW_TAG_enumeration_type => Some(match attributes.name {
                Some(name) if attributes.enum_class => format!("{}{name}::", self.prefix()),
                _ => self.prefix().to_owned(),
            }),
            gimli::DW_TAG_compile_unit
            | gimli::DW_TAG_partial_unit
            | gimli::DW_TAG_type_unit
            | gimli::DW_TAG_skeleton_unit => Some(String::new()),
            _ => None,
        }
    }

    fn prefix(&self) -> &str {
        self.scopes.last().map_or("", |(_, prefix)| prefix)
    }

    fn enumerator(&mut self, attributes: &Attributes<'m>, of: usize) {
        if let (Some(name), Some(value)) = (attributes.name, attributes.value) {
            let name = format!("{}{name}", self.prefix());
            self.add(name, of, Kind::Enumerator(value), attributes);
        }
    }

    fn entry(&mut self, tag: DwTag, attributes: &Attributes<'m>, at: usize) {
        let Some(kind) = kind(tag, attributes) else {
            return;
        };
        let own = attributes
            .name
            .map(|name| format!("{}{name}", self.prefix()));
        let completed = attributes.specification.map(|at| self.declared.get(&at));
        let Some(name) = own.or(completed.flatten().map(|name| name.to_string())) else {
            return;
        };
        if attributes.declaration {
            self.declared.insert(at, name.clone().into());
        }
        let is_tagged = matches!(kind, Kind::Structure | Kind::Union | Kind::Enumeration);
        if (is_tagged || kind == Kind::Type) && !self.prefix().is_empty() {
            let place = self.place(at);
            self.index.qualified.insert(place, name.clone().into());
        }
        if is_tagged && attributes.declaration {
            return;
        }
        if kind == Kind::Function
            && let Some(linkage) = attributes.linkage
        {
            let place = self.place(at);
            self.index.linked.entry(linkage.into()).or_insert(place);
        }
        self.add(name, at, kind, attributes);
    }

    fn place(&self, at: usize) -> Place {
        Place {
            offset: at,
            ..self.root
        }
    }

    fn add(&mut self, name: String, at: usize, kind: Kind, attributes: &Attributes<'m>) {
        let named = Named {
            place: self.place(at),
            kind,
            external: attributes.external || attributes.specification.is_some(),
            without_keyword: self.without_keyword,
        };
        self.index.names.entry(name.into()).or_default().push(named);
    }
}

fn kind(tag: DwTag, attributes: &Attributes<'_>) -> Option<Kind> {
    Some(match tag {
        gimli::DW_TAG_variable if attributes.has_place => Kind::Variable,
        gimli::DW_TAG_variable => Kind::DeclaredVariable,
        // Static members are members in DWARF 4.
        gimli::DW_TAG_member if attributes.external => Kind::DeclaredVariable,
        gimli::DW_TAG_subprogram => Kind::Function,
        gimli::DW_TAG_base_type | gimli::DW_TAG_typedef => Kind::Type,
        gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => Kind::Structure,
        gimli::DW_TAG_union_type => Kind::Union,
        gimli::DW_TAG_enumeration_type => Kind::Enumeration,
        _ => return None,
    })
}

/// Goes past the entries below one that was just read at that depth.
fn skip(entries: &mut EntriesRaw<'_, Slice<'_>>, depth: isize) -> gimli::Result<()> {
    while !entries.is_empty() && entries.next_depth() > depth {
        if let Some(abbreviation) = entries.read_abbreviation()? {
            entries.skip_attributes(abbreviation.attributes())?;
        }
    }
    Ok(())
}
