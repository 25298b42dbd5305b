//! The binary operators and how tightly they bind.

use crate::ast::Logical;
use crate::typed::Binary;

/// What a binary operator makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Binary(Binary),
    Logical(Logical),
}

/// The operator and its precedence: the higher, the tighter.
pub(super) fn binary(text: &str) -> Option<(Operator, u8)> {
    use Operator::{Binary as B, Logical as L};
    Some(match text {
        "||" => (L(Logical::Or), 1),
        "^^" => (L(Logical::Xor), 2),
        "&&" => (L(Logical::And), 3),
        "|" => (B(Binary::Or), 4),
        "^" => (B(Binary::Xor), 5),
        "&" => (B(Binary::And), 6),
        "==" => (B(Binary::Equal), 7),
        "!=" => (B(Binary::NotEqual), 7),
        "<" => (B(Binary::Less), 8),
        "<=" => (B(Binary::LessEqual), 8),
        ">" => (B(Binary::Greater), 8),
        ">=" => (B(Binary::GreaterEqual), 8),
        "<<" => (B(Binary::ShiftLeft), 9),
        ">>" => (B(Binary::ShiftRight), 9),
        "+" => (B(Binary::Add), 10),
        "-" => (B(Binary::Subtract), 10),
        "*" => (B(Binary::Multiply), 11),
        "/" => (B(Binary::Divide), 11),
        "%" => (B(Binary::Remainder), 11),
        _ => return None,
    })
}

/// The operation of an assignment operator; for `=` none.
pub(super) fn assignment(text: &str) -> Option<Option<Binary>> {
    Some(match text {
        "=" => None,
        "+=" => Some(Binary::Add),
        "-=" => Some(Binary::Subtract),
        "*=" => Some(Binary::Multiply),
        "/=" => Some(Binary::Divide),
        "%=" => Some(Binary::Remainder),
        "&=" => Some(Binary::And),
        "|=" => Some(Binary::Or),
        "^=" => Some(Binary::Xor),
        "<<=" => Some(Binary::ShiftLeft),
        ">>=" => Some(Binary::ShiftRight),
        _ => return None,
    })
}
