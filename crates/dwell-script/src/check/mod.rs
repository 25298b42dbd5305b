//! The syntax tree to the checked form: names resolved, expressions typed, conversions written out.

mod aggregate;
mod arguments;
mod arith;
mod assign;
mod call;
mod cast;
mod clause;
mod common;
mod compare;
mod declare;
mod expr;
mod fold;
mod format;
mod inline;
mod llquantize;
mod members;
mod names;
mod place;
mod quantize;
mod record;
mod record_types;
mod rules;
mod translate;
mod type_names;

use crate::ast;
use crate::error::{Checked, Fault};
use crate::options::Options;
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Expr, ExprKind, ProbePattern, Script};
use crate::types::{TypeId, Types};
use crate::world::World;
use common::Common;
use inline::Frame;
use names::Names;
use rules::ClauseRules;

pub(crate) use arith::text as operator_text;
pub(crate) use common::type_of_name;

/// Expressions checked for one script, each use of an inline counted anew: doubling inlines would never end.
const WORK: u32 = 400_000;
/// How deep checked expressions nest, through inlines and translators.
const DEPTH: u32 = 400;

/// Checks a program and gives its checked form.
pub(crate) struct Checker<'w> {
    world: &'w dyn World,
    options: &'w Options,
    /// Whether there is a target process, which `%A` needs.
    has_target: bool,
    script: Script,
    common: Common,
    names: Names,
    /// What the names of translators' and inlines' parameters stand for; the last one counts.
    frames: Vec<Frame>,
    /// The probe of the clause that is checked.
    probe: Option<ProbePattern>,
    rules: ClauseRules,
    /// The first action of the statement that stands where a value is wanted.
    misplaced: Option<Box<Fault>>,
    work: u32,
    depth: u32,
}

impl<'w> Checker<'w> {
    pub fn new(
        world: &'w dyn World,
        options: &'w Options,
        has_target: bool,
        mut types: Types,
    ) -> Self {
        let common = Common::new(&mut types);
        Checker {
            world,
            options,
            has_target,
            script: Script {
                types,
                ..Script::default()
            },
            common,
            names: Names::default(),
            frames: Vec::new(),
            probe: None,
            rules: ClauseRules::default(),
            misplaced: None,
            work: 0,
            depth: 0,
        }
    }

    /// Checks a part of the script: the number of clauses up to its end.
    pub fn program(&mut self, program: ast::Program) -> Checked<usize> {
        for item in program.items {
            match item {
                ast::Item::Clause(clause) => self.clause(&clause)?,
                ast::Item::Declaration(declaration) => self.declaration(&declaration)?,
                ast::Item::Inline(inline) => self.inline_definition(inline)?,
                ast::Item::Translator(translator) => self.translator(translator)?,
            }
        }
        Ok(self.script.clauses.len())
    }

    /// The checked form of all parts.
    pub fn finish(self) -> Script {
        self.script
    }

    fn types(&self) -> &Types {
        &self.script.types
    }

    /// The name of a type for a message.
    fn type_text(&self, ty: TypeId) -> String {
        self.script.types.name(ty)
    }

    fn int(&self, value: i64, ty: TypeId, span: Span) -> Expr {
        Expr {
            kind: ExprKind::Int(value),
            ty,
            span,
        }
    }

    /// Counts work against the limit.
    fn charge(&mut self, amount: u32, span: Span) -> Checked<()> {
        self.work = self.work.saturating_add(amount);
        if self.work > WORK {
            let message = "program is too large with its inlines and translators written out";
            return Err(Fault::new(Tag::Syntax, span, message));
        }
        Ok(())
    }

    /// Runs a check one level deeper.
    fn deeper<T>(&mut self, span: Span, check: impl FnOnce(&mut Self) -> Checked<T>) -> Checked<T> {
        if self.depth >= DEPTH {
            let message = "inlines or translators are nested too deeply";
            return Err(Fault::new(Tag::Syntax, span, message));
        }
        self.depth += 1;
        let result = check(self);
        self.depth -= 1;
        result
    }
}
