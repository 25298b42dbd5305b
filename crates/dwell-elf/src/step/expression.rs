//! Evaluates DWARF expressions of call frame information.
use super::Registers;
use crate::unwind::Slice;
use gimli::{Encoding, Evaluation, EvaluationResult, Expression, Format, Location, Value};

/// Most operations per expression; the longest real ones (the old kernel vDSO) have about 20, and
/// the limit keeps a hostile loop short.
const MAX_OPERATIONS: u32 = 1000;

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It reads memory that cannot be read.
    Memory,
    /// It is malformed or needs what an unwinder does not know.
    Unsupported,
}

/// The value of `expression`, evaluated with `initial` on its stack (the CFA, for register rules).
pub(super) fn evaluate(
    expression: Expression<Slice<'_>>,
    initial: Option<u64>,
    registers: &Registers,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Result<u64, Failure> {
    let encoding = Encoding {
        address_size: 8,
        format: Format::Dwarf32,
        version: 4,
    };
    let mut evaluation = Evaluation::new(expression.0, encoding);
    evaluation.set_max_iterations(MAX_OPERATIONS);
    if let Some(value) = initial {
        evaluation.set_initial_value(value);
    }
    let mut state = evaluation.evaluate();
    loop {
        state = match state.map_err(|_| Failure::Unsupported)? {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresMemory {
                address,
                size,
                space: None,
                ..
            } => {
                let value = read_sized(address, size, read).ok_or(Failure::Memory)?;
                evaluation.resume_with_memory(Value::Generic(value))
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = registers.get(register.0).ok_or(Failure::Unsupported)?;
                evaluation.resume_with_register(Value::Generic(value))
            }
            _ => return Err(Failure::Unsupported),
        };
    }
    match evaluation.as_result() {
        [piece] => match piece.location {
            Location::Address { address } => Ok(address),
            _ => Err(Failure::Unsupported),
        },
        _ => Err(Failure::Unsupported),
    }
}

/// Reads 1 to 8 bytes through a reader of 8.
fn read_sized(address: u64, size: u8, read: &mut impl FnMut(u64) -> Option<u64>) -> Option<u64> {
    let value = read(address)?;
    match size {
        8 => Some(value),
        1..8 => Some(value & ((1 << (8 * u32::from(size))) - 1)),
        _ => None,
    }
}
