//! Numbers and strings as C's printf writes them.

/// The greatest width and precision. No terminal is so wide, and a number out of the target must not make us
/// allocate without bound.
pub const WIDEST: usize = 65_535;

/// Flags, width and precision of a conversion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// `#`
    pub alternate: bool,
    /// `0`
    pub zero: bool,
    /// `-`
    pub left: bool,
    /// `+`
    pub plus: bool,
    /// A space.
    pub space: bool,
    /// Least width in bytes; at most [`WIDEST`].
    pub width: usize,
    /// Digits or bytes, at most [`WIDEST`]; never 0, which dtrace takes for none.
    pub precision: Option<usize>,
}

/// How an unsigned number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// `%u`
    Decimal,
    /// `%o`
    Octal,
    /// `%x`, `%X`
    Hexadecimal {
        /// With large letters.
        upper: bool,
    },
}

/// `%d`.
pub fn signed(out: &mut Vec<u8>, value: i64, shape: &Shape) {
    integer(
        out,
        sign(value < 0, shape),
        &value.unsigned_abs().to_string(),
        shape,
    );
}

/// `%u`, `%o`, `%x`, `%X`.
pub fn unsigned(out: &mut Vec<u8>, value: u64, base: Base, shape: &Shape) {
    let alternate = shape.alternate && value != 0;
    let (prefix, digits) = match base {
        Base::Decimal => ("", value.to_string()),
        // The zero in front counts as a digit.
        Base::Octal if alternate => ("", format!("0{value:o}")),
        Base::Octal => ("", format!("{value:o}")),
        Base::Hexadecimal { upper: false } => ("0x", format!("{value:x}")),
        Base::Hexadecimal { upper: true } => ("0X", format!("{value:X}")),
    };
    let prefix = if alternate { prefix } else { "" };
    integer(out, prefix, &digits, shape);
}

/// `%s`: bytes up to the precision.
pub fn string(out: &mut Vec<u8>, bytes: &[u8], shape: &Shape) {
    let bytes = &bytes[..bytes.len().min(shape.precision.unwrap_or(usize::MAX))];
    padded(out, shape, |out| out.extend_from_slice(bytes));
}

/// `%e`, `%f`, `%g` and their large forms, `conversion` being the letter.
pub fn float(out: &mut Vec<u8>, value: f64, conversion: u8, shape: &Shape) {
    let sign = sign(value.is_sign_negative(), shape);
    let mut digits = match value.abs() {
        value if value.is_nan() => "nan".to_owned(),
        value if value.is_infinite() => "inf".to_owned(),
        value => float_digits(value, conversion.to_ascii_lowercase(), shape),
    };
    if conversion.is_ascii_uppercase() {
        digits.make_ascii_uppercase();
    }
    let zero = shape.zero && value.is_finite();
    number(out, sign, &digits, zero, shape);
}

/// What stands in front of a number.
fn sign(negative: bool, shape: &Shape) -> &'static str {
    match (negative, shape.plus, shape.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (.., true) => " ",
        _ => "",
    }
}

/// The digits of a number from 0 on.
fn float_digits(value: f64, conversion: u8, shape: &Shape) -> String {
    let precision = shape.precision.unwrap_or(6);
    match conversion {
        b'f' => with_point(format!("{value:.precision$}"), precision, shape),
        b'e' => exponential(value, precision, shape),
        _ => shortest(value, precision, shape),
    }
}

/// With `#` there is a point even if no digits follow it.
fn with_point(mut digits: String, precision: usize, shape: &Shape) -> String {
    if precision == 0 && shape.alternate {
        digits.push('.');
    }
    digits
}

/// `1.5e+00`.
fn exponential(value: f64, precision: usize, shape: &Shape) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    let digits = with_point(digits.to_owned(), precision, shape);
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// `%g`: the exponential form for very small and for large numbers, without zeros at the end.
fn shortest(value: f64, precision: usize, shape: &Shape) -> String {
    let rounded = exponential(value, precision - 1, shape);
    let (digits, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let whole = precision as i64 - 1;
    if exponent < -4 || exponent > whole {
        let digits = without_zeros(digits, shape);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let decimals = ((whole - exponent) as usize).min(WIDEST);
    let digits = with_point(format!("{value:.decimals$}"), decimals, shape);
    without_zeros(&digits, shape).to_owned()
}

/// `%g` shows zeros behind the point only with `#`.
fn without_zeros<'t>(digits: &'t str, shape: &Shape) -> &'t str {
    match shape.alternate || !digits.contains('.') {
        true => digits,
        false => digits.trim_end_matches('0').trim_end_matches('.'),
    }
}

/// An integer: a precision is its least number of digits and makes `0` void.
fn integer(out: &mut Vec<u8>, sign: &str, digits: &str, shape: &Shape) {
    let missing = shape.precision.unwrap_or(0).saturating_sub(digits.len());
    let digits = "0".repeat(missing) + digits;
    number(
        out,
        sign,
        &digits,
        shape.zero && shape.precision.is_none(),
        shape,
    );
}

/// A number filled up to its width: zeros go between the sign and the digits.
fn number(out: &mut Vec<u8>, sign: &str, digits: &str, zero: bool, shape: &Shape) {
    let missing = shape.width.saturating_sub(sign.len() + digits.len());
    let zeros = if zero && !shape.left { missing } else { 0 };
    padded(out, shape, |out| {
        out.extend_from_slice(sign.as_bytes());
        out.resize(out.len() + zeros, b'0');
        out.extend_from_slice(digits.as_bytes());
    });
}

/// What `write` writes, with spaces up to the width.
pub fn padded(out: &mut Vec<u8>, shape: &Shape, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    write(out);
    let missing = shape.width.saturating_sub(out.len() - start);
    out.resize(out.len() + missing, b' ');
    if !shape.left {
        out[start..].rotate_right(missing);
    }
}
