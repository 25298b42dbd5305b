//! A world of a few types, symbols and probes.

use dwell_script::typed::ProbePattern;
use dwell_script::types::{Member, Record, Type, TypeId, Types};
use dwell_script::{Argument, Arguments, Keyword, Passed, Symbol, SymbolPlace, World};

/// `struct node { struct node *next; int key; char name[16]; unsigned flags : 3, kind : 5; }`, `struct hidden;`,
/// `enum color { RED, GREEN = 5 }`; symbols `counter` (int), `root` (struct node), `table` (struct node[4]), `tls`
/// (long, thread-local), `bare` (no type), `main` (function).
pub struct Small;

fn int(types: &mut Types, name: &str, size: u8, signed: bool) -> TypeId {
    types.add(Type::Int {
        name: name.into(),
        size,
        signed,
    })
}

fn node(types: &mut Types) -> TypeId {
    let hollow = Type::Incomplete {
        keyword: "struct",
        name: "node".into(),
    };
    let id = types.add(hollow);
    let next = types.add(Type::Pointer(id));
    let key = int(types, "int", 4, true);
    let unsigned = int(types, "unsigned int", 4, false);
    let char = int(types, "char", 1, true);
    let name = types.add(Type::Array {
        of: char,
        count: 16,
    });
    let member = |name: &str, ty, offset_bits, bits| Member {
        name: name.into(),
        ty,
        offset_bits,
        bits,
    };
    let record = Type::Record(Record {
        keyword: "struct",
        name: "node".into(),
        size: 32,
        members: vec![
            member("next", next, 0, None),
            member("key", key, 64, None),
            member("name", name, 96, None),
            member("flags", unsigned, 224, Some(3)),
            member("kind", unsigned, 227, Some(5)),
        ],
    });
    types.complete(id, record);
    id
}

fn color(types: &mut Types) -> TypeId {
    types.add(Type::Enum {
        name: "color".into(),
        size: 4,
        signed: false,
        values: vec![("RED".into(), 0), ("GREEN".into(), 5)],
    })
}

impl World for Small {
    fn type_named(
        &self,
        _module: Option<&str>,
        keyword: Option<Keyword>,
        name: &str,
        types: &mut Types,
    ) -> Option<TypeId> {
        match (keyword, name) {
            (Some(Keyword::Struct), "node") => Some(node(types)),
            (Some(Keyword::Enum), "color") => Some(color(types)),
            (None, "node_t") => {
                let to = node(types);
                Some(types.add(Type::Typedef {
                    name: name.into(),
                    to,
                }))
            }
            _ => None,
        }
    }

    fn symbol(&self, _module: Option<&str>, name: &str, types: &mut Types) -> Option<Symbol> {
        let address = SymbolPlace::Address;
        let (place, ty) = match name {
            "counter" => (address(0x1000), Some(int(types, "int", 4, true))),
            "root" => (address(0x2000), Some(node(types))),
            "table" => {
                let of = node(types);
                (
                    address(0x3000),
                    Some(types.add(Type::Array { of, count: 4 })),
                )
            }
            "tls" => (
                SymbolPlace::ThreadPointer(-16),
                Some(int(types, "long", 8, true)),
            ),
            "bare" => (address(0x4000), None),
            "shade" => (address(0x5000), Some(color(types))),
            "main" => (address(0x6000), Some(types.add(Type::Function))),
            "ratio" => {
                let name = "double".into();
                (
                    address(0x7000),
                    Some(types.add(Type::Float { name, size: 8 })),
                )
            }
            _ => return None,
        };
        Some(Symbol { place, ty })
    }

    fn arguments(&self, probe: &ProbePattern, types: &mut Types) -> Arguments {
        match &*probe.function {
            "insert" => {
                let node = node(types);
                let pointer = types.add(Type::Pointer(node));
                let key = int(types, "int", 4, true);
                let char = int(types, "char", 1, true);
                let name = types.add(Type::Pointer(char));
                let shade = color(types);
                let words = [pointer, key, name, shade].into_iter().zip(0..);
                let mut known: Vec<Argument> = words
                    .map(|(ty, n)| Argument {
                        ty,
                        passed: Passed::Word(n),
                    })
                    .collect();
                known.push(Argument {
                    ty: node,
                    passed: Passed::Otherwise("is a structure passed by value"),
                });
                Arguments::Known(known)
            }
            "many*" => Arguments::Ambiguous,
            _ => Arguments::Unknown,
        }
    }

    fn probe_exists(&self, probe: &ProbePattern) -> bool {
        !probe.function.contains("nowhere")
    }

    fn symbols_like(&self, _name: &str) -> Vec<String> {
        vec!["counter".into(), "root".into()]
    }
}
