//! How a function's arguments are passed on x86-64 Linux.
use dwell_script::types::{Type, TypeId, Types};
use dwell_script::{Argument, Passed};

/// Registers for integers and for floating-point numbers.
const REGISTERS: usize = 6;
const FLOAT_REGISTERS: usize = 8;

/// What eight bytes of a value are passed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Integer,
    Float,
}

/// How a value is passed.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// In a register for each.
    Registers(Vec<Class>),
    /// On the stack, in so many words, the first at a multiple of 16 if so.
    Stack(usize, bool),
    /// Its address in its stead (a C++ object with a constructor or destructor of its own).
    Address,
}

/// A parameter: its type, and whether it is an object that is passed by address.
pub(crate) type Parameter = (TypeId, bool);

/// Where each of a function's arguments is found. `returned`: what it returns.
pub(crate) fn arguments(
    types: &Types,
    parameters: &[Parameter],
    returned: Option<Parameter>,
) -> Vec<Argument> {
    let mut integers = 0;
    let (mut floats, mut words) = (0, 0);
    if let Some((ty, by_address)) = returned
        && !matches!(way(types, ty, by_address), Way::Registers(_))
    {
        // The address that the result shall be written to.
        integers = 1;
    }
    let mut place = |(ty, by_address): &Parameter| {
        let way = way(types, *ty, *by_address);
        let classes = match &way {
            Way::Address => vec![Class::Integer],
            Way::Registers(classes) => classes.clone(),
            Way::Stack(..) => Vec::new(),
        };
        let count = |class| classes.iter().filter(|c| **c == class).count();
        let fits = integers + count(Class::Integer) <= REGISTERS
            && floats + count(Class::Float) <= FLOAT_REGISTERS;
        let passed = match (&way, classes.as_slice()) {
            (Way::Address, _) => Passed::Otherwise("is passed by its address"),
            (Way::Registers(_), [Class::Integer]) if types.is_record(*ty) => {
                Passed::Otherwise("is a structure passed by value")
            }
            (Way::Registers(_), [Class::Integer]) if fits => Passed::Word(integers as u8),
            (Way::Registers(_), [Class::Integer]) => {
                Passed::Word((REGISTERS + words).min(255) as u8)
            }
            _ if types.is_record(*ty) => Passed::Otherwise("is a structure passed by value"),
            _ => Passed::Otherwise("is passed as a floating-point number"),
        };
        if !fits || classes.is_empty() {
            let (size, aligned) = match way {
                Way::Stack(size, aligned) => (size, aligned),
                _ => (classes.len(), false),
            };
            if aligned {
                words = words.next_multiple_of(2);
            }
            words += size;
        } else {
            integers += count(Class::Integer);
            floats += count(Class::Float);
        }
        Argument { ty: *ty, passed }
    };
    parameters.iter().map(&mut place).collect()
}

/// How a returned value is had: the second of the two arguments of a return.
pub(crate) fn result(types: &Types, (ty, by_address): Parameter) -> Argument {
    let passed = match way(types, ty, by_address) {
        Way::Registers(classes) if classes == [Class::Integer] && !types.is_record(ty) => {
            Passed::Word(1)
        }
        _ if types.is_record(ty) => Passed::Otherwise("is a structure returned by value"),
        _ => Passed::Otherwise("is returned as a floating-point number"),
    };
    Argument { ty, passed }
}

fn way(types: &Types, ty: TypeId, by_address: bool) -> Way {
    if by_address {
        return Way::Address;
    }
    let size = types.size(ty).unwrap_or(8);
    let words = (size.div_ceil(8) as usize).max(1);
    match types.actual(ty) {
        Type::Float { size: 16, .. } => return Way::Stack(2, true),
        Type::Record(record) if size > 16 || record.size == 0 => return Way::Stack(words, false),
        // `__int128` and the like, whose parts are not told.
        Type::Record(record) if record.members.is_empty() => {
            return Way::Registers(vec![Class::Integer; words]);
        }
        _ => {}
    }
    let mut classes = vec![Class::Float; words];
    if !classify(types, ty, 0, &mut classes, 0) {
        return Way::Stack(words, false);
    }
    Way::Registers(classes)
}

/// A word that holds any integer is an integer's; whether the value can be in registers at all.
fn classify(types: &Types, ty: TypeId, at: u64, classes: &mut [Class], depth: u32) -> bool {
    if depth > 32 {
        return false;
    }
    match types.actual(ty) {
        Type::Record(record) => record.members.iter().all(|member| {
            let offset = at + u64::from(member.offset_bits / 8);
            classify(types, member.ty, offset, classes, depth + 1)
        }),
        Type::Array { of, count } => {
            let size = types.size(*of).unwrap_or(0);
            (0..u64::from(*count).min(16))
                .all(|i| classify(types, *of, at + i * size, classes, depth + 1))
        }
        Type::Float { size: 4 | 8, .. } => true,
        Type::Float { .. } => false,
        _ => match classes.get_mut((at / 8) as usize) {
            Some(class) => {
                *class = Class::Integer;
                true
            }
            None => true,
        },
    }
}
