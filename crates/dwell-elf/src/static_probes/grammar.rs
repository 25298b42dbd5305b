//! The words of a note for its arguments, as an assembler writes operands: `-4@%eax`, `8@-8(%rbp)`,
//! `1@(%rax,%rbx,8)`, `8f@%xmm0`, `4@counter+8(%rip)`, `-4@$5`; without `N@` eight unsigned bytes.
use super::argument::{Argument, ArgumentKind, Place, Register};

/// The arguments of a note, one a word.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_ascii_whitespace()
}

/// The variable that an argument names, if any.
pub(super) fn symbol(word: &str) -> Option<&str> {
    let operand = word.split_once('@').map_or(word, |(_, operand)| operand);
    if operand.starts_with(['%', '$']) {
        return None;
    }
    let (sum, _) = operand.split_once('(').unwrap_or((operand, ""));
    Sum::parse(sum).ok()?.symbol
}

/// One argument; `address_of` gives a variable's stated address.
pub(super) fn argument(
    word: &str,
    address_of: &dyn Fn(&str) -> Result<u64, &'static str>,
) -> Result<Argument, &'static str> {
    let (kind, size, operand) = match word.split_once('@') {
        Some((format, operand)) if is_format(format) => {
            let (kind, size) = kind_and_size(format)?;
            (kind, size, operand)
        }
        _ => (ArgumentKind::Unsigned, 8, word),
    };
    let place = place(operand, address_of)?;
    if let (Place::HighByte(_), 2..) = (place, size) {
        return Err("it is said to be larger than its register");
    }
    Ok(Argument { kind, size, place })
}

/// Whether this is the part before `@`, and not the beginning of `symbol@GOTPCREL(%rip)`.
fn is_format(text: &str) -> bool {
    text.trim_start_matches('-')
        .starts_with(|c: char| c.is_ascii_digit())
}

fn kind_and_size(format: &str) -> Result<(ArgumentKind, u8), &'static str> {
    let (unsigned, kind) = match format.strip_prefix('-') {
        Some(rest) => (rest, ArgumentKind::Signed),
        None => (format, ArgumentKind::Unsigned),
    };
    let (digits, kind) = match unsigned.strip_suffix('f') {
        Some(digits) => (digits, ArgumentKind::Float),
        None => (unsigned, kind),
    };
    match (digits, kind) {
        ("1" | "2", ArgumentKind::Float) => Err("no float has this size"),
        ("1", _) => Ok((kind, 1)),
        ("2", _) => Ok((kind, 2)),
        ("4", _) => Ok((kind, 4)),
        ("8", _) => Ok((kind, 8)),
        _ => Err("its size is not 1, 2, 4 or 8 bytes"),
    }
}

fn place(
    operand: &str,
    address_of: &dyn Fn(&str) -> Result<u64, &'static str>,
) -> Result<Place, &'static str> {
    if operand.is_empty() {
        return Err("it is no operand of x86-64");
    }
    if let Some(constant) = operand.strip_prefix('$') {
        if constant.is_empty() {
            return Err("its number is none, or too large");
        }
        return Sum::parse(constant)?
            .without_symbol()
            .map(Place::Constant)
            .ok_or("it is the address of a variable");
    }
    if operand.starts_with('%') {
        return register_place(operand);
    }
    let Some((sum, rest)) = operand.split_once('(') else {
        return absolute(Sum::parse(operand)?, None, address_of);
    };
    let inner = rest.strip_suffix(')').ok_or("a parenthesis is missing")?;
    memory(Sum::parse(sum)?, inner, address_of)
}

/// What stands alone: `%eax`, `%ah`, `%xmm0`; `%fs:…` is a thread's own memory.
fn register_place(operand: &str) -> Result<Place, &'static str> {
    let name = operand.strip_prefix('%').unwrap_or(operand);
    if operand.contains(':') {
        return Err("it is in memory of the thread's own, which is found by no register");
    }
    if let Some(number) = name.strip_prefix("xmm") {
        return match number.parse() {
            Ok(number @ 0..=31) => Ok(Place::Vector(number)),
            _ => Err("there is no such vector register"),
        };
    }
    if let Some(full) = high_byte(name) {
        return Ok(Place::HighByte(full));
    }
    register(name)
        .map(Place::Register)
        .ok_or("there is no such register")
}

/// `displacement(base,index,scale)`; each part may be missing.
fn memory(
    sum: Sum,
    inner: &str,
    address_of: &dyn Fn(&str) -> Result<u64, &'static str>,
) -> Result<Place, &'static str> {
    let mut parts = inner.split(',').map(str::trim);
    let base = parts.next().unwrap_or_default();
    let index = parts.next();
    let scale = parts.next();
    if parts.next().is_some() {
        return Err("its address has more than three parts");
    }
    let index = index.map(|index| indexed(index, scale)).transpose()?;
    if base == "%rip" || base.is_empty() {
        if base == "%rip" && (sum.symbol.is_none() || index.is_some()) {
            return Err("only a variable can be relative to %rip");
        }
        return absolute(sum, index, address_of);
    }
    let displacement = sum
        .without_symbol()
        .ok_or("its address depends on where a variable was linked to")?;
    Ok(Place::Memory {
        base: Some(address_register(base)?),
        index,
        displacement,
    })
}

fn indexed(index: &str, scale: Option<&str>) -> Result<(Register, u8), &'static str> {
    let register = address_register(index)?;
    match scale {
        None | Some("1") => Ok((register, 1)),
        Some("2") => Ok((register, 2)),
        Some("4") => Ok((register, 4)),
        Some("8") => Ok((register, 8)),
        Some(_) => Err("an index is multiplied by 1, 2, 4 or 8 only"),
    }
}

/// A whole register: what is part of an address has 64 bits.
fn address_register(text: &str) -> Result<Register, &'static str> {
    const WRONG: &str = "its address is not made of 64-bit registers";
    let name = text.strip_prefix('%').ok_or(WRONG)?;
    register(name)
        .filter(|_| WHOLE.contains(&name))
        .ok_or(WRONG)
}

fn absolute(
    sum: Sum,
    index: Option<(Register, u8)>,
    address_of: &dyn Fn(&str) -> Result<u64, &'static str>,
) -> Result<Place, &'static str> {
    match sum.symbol {
        Some(symbol) if symbol.contains('@') => {
            Err("it is reached through the linker's tables, whose symbols are gone")
        }
        Some(symbol) => Ok(Place::Variable {
            stated_address: address_of(symbol)?.wrapping_add_signed(sum.number),
            index,
        }),
        None => Ok(Place::Memory {
            base: None,
            index,
            displacement: sum.number,
        }),
    }
}

/// A sum of numbers and at most one symbol: `16`, `-0x8`, `counter`, `counter+8`, `8+counter`.
#[derive(Clone, Copy, Debug, Default)]
struct Sum<'a> {
    symbol: Option<&'a str>,
    number: i64,
}

impl<'a> Sum<'a> {
    fn parse(text: &'a str) -> Result<Self, &'static str> {
        let mut sum = Sum::default();
        let mut rest = text;
        while !rest.is_empty() {
            let (negative, term) = match rest.as_bytes()[0] {
                b'-' => (true, &rest[1..]),
                b'+' => (false, &rest[1..]),
                _ => (false, rest),
            };
            let end = term.find(['+', '-']).unwrap_or(term.len());
            let (term, after) = term.split_at(end);
            rest = after;
            if term.starts_with(|c: char| c.is_ascii_digit()) {
                let number = number(term, negative).ok_or("its number is none, or too large")?;
                sum.number = sum.number.wrapping_add(number);
            } else if !negative && is_symbol(term) && sum.symbol.is_none() {
                sum.symbol = Some(term);
            } else {
                return Err("it is no operand of x86-64");
            }
        }
        Ok(sum)
    }

    fn without_symbol(self) -> Option<i64> {
        self.symbol.is_none().then_some(self.number)
    }
}

fn is_symbol(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.$@".contains(&b) || !b.is_ascii())
}

/// Decimal, or hexadecimal with `0x`. As wide as a register: what exceeds the signed range wraps.
fn number(digits: &str, negative: bool) -> Option<i64> {
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    let value = value.ok()? as i64;
    Some(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}

/// The names of the registers by width; the position in each is the number of the register.
const WHOLE: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
const LOW_32: [&str; 16] = [
    "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d",
    "r13d", "r14d", "r15d",
];
const LOW_16: [&str; 16] = [
    "ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8w", "r9w", "r10w", "r11w", "r12w", "r13w",
    "r14w", "r15w",
];
const LOW_8: [&str; 16] = [
    "al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", "r8b", "r9b", "r10b", "r11b", "r12b",
    "r13b", "r14b", "r15b",
];

/// A register by any of its names without `%`. The size before `@` tells how much of it counts.
fn register(name: &str) -> Option<Register> {
    [WHOLE, LOW_32, LOW_16, LOW_8]
        .iter()
        .find_map(|names| names.iter().position(|&n| n == name))
        .map(|number| Register::ALL[number])
}

fn high_byte(name: &str) -> Option<Register> {
    match name {
        "ah" => Some(Register::Rax),
        "bh" => Some(Register::Rbx),
        "ch" => Some(Register::Rcx),
        "dh" => Some(Register::Rdx),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Register::*;

    const VARIABLE: u64 = 0x4000;

    fn parsed(word: &str) -> Result<Argument, &'static str> {
        argument(word, &|symbol| match symbol {
            "counter" | "table.0" => Ok(VARIABLE),
            _ => Err("unknown"),
        })
    }

    fn memory_at(
        base: Option<Register>,
        index: Option<(Register, u8)>,
        displacement: i64,
    ) -> Place {
        Place::Memory {
            base,
            index,
            displacement,
        }
    }

    #[track_caller]
    fn check(word: &str, kind: ArgumentKind, size: u8, place: Place) {
        assert_eq!(parsed(word), Ok(Argument { kind, size, place }), "{word}");
    }

    #[test]
    fn constants_and_registers() {
        use ArgumentKind::*;
        check("-4@%eax", Signed, 4, Place::Register(Rax));
        check("8@%rdi", Unsigned, 8, Place::Register(Rdi));
        check("1@%r15b", Unsigned, 1, Place::Register(R15));
        check("-1@%ah", Signed, 1, Place::HighByte(Rax));
        check("-2@%r12w", Signed, 2, Place::Register(R12));
        check("8f@%xmm0", Float, 8, Place::Vector(0));
        check("4f@%xmm15", Float, 4, Place::Vector(15));
        check("8f@%rdx", Float, 8, Place::Register(Rdx));
        check("4@$5", Unsigned, 4, Place::Constant(5));
        check("-8@$-5", Signed, 8, Place::Constant(-5));
        check("8@$0x10", Unsigned, 8, Place::Constant(16));
        check("8@$18446744073709551615", Unsigned, 8, Place::Constant(-1));
        check("%rsi", Unsigned, 8, Place::Register(Rsi));
    }

    #[test]
    fn memory_operands() {
        use ArgumentKind::*;
        check("8@-8(%rbp)", Unsigned, 8, memory_at(Some(Rbp), None, -8));
        check("4@(%rsp)", Unsigned, 4, memory_at(Some(Rsp), None, 0));
        check("8@0x10(%r8)", Unsigned, 8, memory_at(Some(R8), None, 16));
        let index = Some((Rbx, 8));
        check(
            "1@(%rax,%rbx,8)",
            Unsigned,
            1,
            memory_at(Some(Rax), index, 0),
        );
        let index = Some((R9, 1));
        check(
            "-4@-4(%rax,%r9)",
            Signed,
            4,
            memory_at(Some(Rax), index, -4),
        );
        check("8@8(,%r9,1)", Unsigned, 8, memory_at(None, index, 8));
        check("8@8+16(%rsp)", Unsigned, 8, memory_at(Some(Rsp), None, 24));
        check("4(%rsi)", Unsigned, 8, memory_at(Some(Rsi), None, 4));
    }

    #[test]
    fn variables() {
        let variable = |offset: i64, index| Place::Variable {
            stated_address: VARIABLE.wrapping_add_signed(offset),
            index,
        };
        use ArgumentKind::*;
        check("-4@counter(%rip)", Signed, 4, variable(0, None));
        check("8f@counter(%rip)", Float, 8, variable(0, None));
        check("8@counter+8(%rip)", Unsigned, 8, variable(8, None));
        check("8@-8+counter(%rip)", Unsigned, 8, variable(-8, None));
        check("8@table.0", Unsigned, 8, variable(0, None));
        check(
            "4@table.0-4(,%rdi,4)",
            Unsigned,
            4,
            variable(-4, Some((Rdi, 4))),
        );
        assert_eq!(parsed("4@unknown(%rip)"), Err("unknown"));
    }

    #[test]
    fn what_is_no_argument() {
        for word in [
            "3@%eax",
            "16@%xmm0",
            "2f@%ax",
            "-@%eax",
            "8@",
            "8@%",
            "8@%rzx",
            "8@%xmm32",
            "8@%st(0)",
            "4@%ah",
            "8@(%rax",
            "8@(%eax)",
            "8@(%rax,%rbx,3)",
            "8@(%rax,%rbx,1,1)",
            "8@(%rip)",
            "8@8(%rip)",
            "8@%fs:-8",
            "8@counter@GOTPCREL(%rip)",
            "8@$counter",
            "8@counter(%rax)",
            "8@--8(%rax)",
            "8@$",
            "8@a+b(%rip)",
            "8@99999999999999999999(%rax)",
            "é@é",
            "@",
            "8@-(%rax)",
        ] {
            assert!(parsed(word).is_err(), "{word}: {:?}", parsed(word));
        }
    }

    #[test]
    fn the_named_variable() {
        assert_eq!(symbol("4@counter+8(%rip)"), Some("counter"));
        assert_eq!(symbol("4@table.0(,%rdi,4)"), Some("table.0"));
        for without in ["8@%rax", "8@$5", "8@-8(%rbp)", "8@(%rax,%rbx,8)"] {
            assert_eq!(symbol(without), None, "{without}");
        }
    }
}
