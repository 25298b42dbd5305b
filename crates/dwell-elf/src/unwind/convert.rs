//! One evaluated state to one row, with a rule beside it where the row is too narrow.
use super::cfi::{Cfa, RBP, RDI, RSP, Saved, State};
use super::expression::{CfaForm, cfa_form, rbp_offset};
use dwell_abi::unwind::*;
use gimli::UnwindExpression;
use std::collections::HashMap;

/// Return addresses are here, relative to the CFA, in everything the compact form can say.
const RA_OFFSET: i64 = -8;

/// What holds at a place: a row without its pc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub cfa_off8: i16,
    pub kind: u8,
    pub bp_off8: i8,
}

impl Place {
    /// A kind that needs no numbers.
    pub const fn plain(kind: u8) -> Self {
        Place {
            cfa_off8: 0,
            kind,
            bp_off8: 0,
        }
    }

    /// CFA = sp + 8·`cfa_off8`, rbp at CFA + 8·`bp_off8` (0: unchanged).
    pub const fn sp(cfa_off8: i16, bp_off8: i8) -> Self {
        Place {
            cfa_off8,
            kind: KIND_SP,
            bp_off8,
        }
    }

    pub fn at(self, pc: u32) -> Row {
        Row {
            pc,
            cfa_off8: self.cfa_off8,
            kind: self.kind,
            bp_off8: self.bp_off8,
        }
    }

    pub fn of(row: &Row) -> Self {
        Place {
            cfa_off8: row.cfa_off8,
            kind: row.kind,
            bp_off8: row.bp_off8,
        }
    }
}

/// The rules of a table, each once.
#[derive(Default)]
pub(crate) struct Rules {
    pub list: Vec<Rule>,
    known: HashMap<(i32, i32, [u8; 4]), u16>,
}

impl Rules {
    /// A place that refers to the rule; [`KIND_UNSUPPORTED`] once a row's 16 bits cannot name it.
    fn place(&mut self, rule: Rule) -> Place {
        let key = (
            rule.cfa_off,
            rule.bp_off,
            [rule.cfa_reg, rule.cfa_deref, rule.bp_kind, rule.cfa_add8],
        );
        let index = match self.known.get(&key) {
            Some(&index) => index,
            None => {
                let Ok(index) = u16::try_from(self.list.len()) else {
                    return Place::plain(KIND_UNSUPPORTED);
                };
                self.list.push(rule);
                self.known.insert(key, index);
                index
            }
        };
        Place {
            cfa_off8: index as i16,
            kind: KIND_RULE,
            bp_off8: 0,
        }
    }
}

/// Converts states of one section.
pub(crate) struct Converter<'a> {
    /// The section's bytes, into which expressions point.
    pub section: &'a [u8],
    pub rules: &'a mut Rules,
}

impl Converter<'_> {
    /// The row for a state; [`KIND_UNSUPPORTED`] when neither row nor rule can say it.
    pub fn place(&mut self, state: &State) -> Place {
        self.try_place(state)
            .unwrap_or(Place::plain(KIND_UNSUPPORTED))
    }

    fn try_place(&mut self, state: &State) -> Option<Place> {
        match state.ra {
            Saved::Undefined => return Some(Place::plain(KIND_END)),
            Saved::In(RDI) => return return_address_in_rdi(state),
            Saved::AtCfa(RA_OFFSET) => {}
            _ => return None,
        }
        match state.cfa {
            Cfa::Register(RSP, offset) => self.register_place(REG_SP, offset, state.bp),
            Cfa::Register(RBP, offset) => self.register_place(REG_BP, offset, state.bp),
            // A rule: rows have no room to say which register.
            Cfa::Register(register, offset) if register.0 < 16 => {
                self.leaf_place(register.0 as u8, offset, state.bp)
            }
            Cfa::Register(..) => None,
            Cfa::Expression(expression) => self.expression_place(expression, state.bp),
        }
    }

    fn register_place(&mut self, cfa_reg: u8, offset: i64, bp: Saved) -> Option<Place> {
        if let Some(place) = narrow(cfa_reg, offset, bp) {
            return Some(place);
        }
        let (bp_kind, bp_off) = self.saved_bp(bp)?;
        let cfa_off = i32::try_from(offset).ok()?;
        Some(self.rules.place(Rule {
            cfa_off,
            bp_off,
            cfa_reg,
            cfa_deref: 0,
            bp_kind,
            cfa_add8: 0,
        }))
    }

    fn leaf_place(&mut self, register: u8, offset: i64, bp: Saved) -> Option<Place> {
        let (bp_kind, bp_off) = self.saved_bp(bp)?;
        let cfa_off = i32::try_from(offset).ok()?;
        Some(self.rules.place(Rule {
            cfa_off,
            bp_off,
            cfa_reg: REG_LEAF + register,
            cfa_deref: 0,
            bp_kind,
            cfa_add8: 0,
        }))
    }

    fn expression_place(
        &mut self,
        expression: UnwindExpression<usize>,
        bp: Saved,
    ) -> Option<Place> {
        let (register, offset, add) = match cfa_form(self.bytes(expression)?)? {
            CfaForm::Plt(pushed_at) => {
                return is_kept(bp).then_some(Place {
                    cfa_off8: pushed_at.into(),
                    kind: KIND_PLT,
                    bp_off8: 0,
                });
            }
            CfaForm::Deref(register, offset, add) => (register, offset, add),
        };
        let cfa_reg = match register {
            RSP => REG_SP,
            RBP => REG_BP,
            _ => return None,
        };
        let cfa_add8 = u8::try_from(add / 8).ok().filter(|_| add % 8 == 0)?;
        let (bp_kind, bp_off) = self.saved_bp(bp)?;
        let cfa_off = i32::try_from(offset).ok()?;
        Some(self.rules.place(Rule {
            cfa_off,
            bp_off,
            cfa_reg,
            cfa_deref: 1,
            bp_kind,
            cfa_add8,
        }))
    }

    /// `Rule::bp_kind` and `Rule::bp_off`.
    fn saved_bp(&self, bp: Saved) -> Option<(u8, i32)> {
        match bp {
            Saved::AtCfa(offset) => Some((BP_AT_CFA, i32::try_from(offset).ok()?)),
            Saved::AtExpression(e) => {
                Some((BP_AT_BP, i32::try_from(rbp_offset(self.bytes(e)?)?).ok()?))
            }
            _ => is_kept(bp).then_some((BP_SAME, 0)),
        }
    }

    fn bytes(&self, expression: UnwindExpression<usize>) -> Option<&[u8]> {
        self.section
            .get(expression.offset..expression.offset.checked_add(expression.length)?)
    }
}

/// Whether rbp holds the caller's value, or nobody may rely on it (`Undefined`).
fn is_kept(bp: Saved) -> bool {
    matches!(
        bp,
        Saved::Unspecified | Saved::Undefined | Saved::Same | Saved::In(RBP)
    )
}

/// The common case: everything fits a row.
fn narrow(cfa_reg: u8, offset: i64, bp: Saved) -> Option<Place> {
    let cfa_off8 = eighth(offset).and_then(|o| i16::try_from(o).ok())?;
    let bp_off8 = match bp {
        // 0 in a row means "unchanged", so rbp saved at the CFA itself needs a rule.
        Saved::AtCfa(o) => eighth(o)
            .and_then(|o| i8::try_from(o).ok())
            .filter(|&o| o != 0)?,
        _ if is_kept(bp) => 0,
        _ => return None,
    };
    let kind = if cfa_reg == REG_SP { KIND_SP } else { KIND_BP };
    Some(Place {
        cfa_off8,
        kind,
        bp_off8,
    })
}

/// `vfork`: the return address must survive the child's use of the stack.
fn return_address_in_rdi(state: &State) -> Option<Place> {
    let Cfa::Register(RSP, offset) = state.cfa else {
        return None;
    };
    let cfa_off8 = eighth(offset).and_then(|o| i16::try_from(o).ok())?;
    is_kept(state.bp).then_some(Place {
        cfa_off8,
        kind: KIND_RA_RDI,
        bp_off8: 0,
    })
}

fn eighth(offset: i64) -> Option<i64> {
    (offset % 8 == 0).then_some(offset / 8)
}
