//! What a name stands for.

use std::collections::HashMap;
use std::rc::Rc;

use super::Checker;
use super::inline::InlineDefinition;
use super::translate::TranslatorDefinition;
use crate::ast;
use crate::builtins::constants::CONSTANTS;
use crate::builtins::functions::{self, FUNCTIONS};
use crate::builtins::variables::{REGISTERS, SPECIAL, VARIABLES};
use crate::error::{Checked, Fault};
use crate::schema::AggregationId;
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Builtin, Expr, ExprKind, Place, PlaceKind, Scope, Variable, VariableId};
use crate::types::{Type, TypeId};
use crate::world::{Keyword, SymbolPlace};

/// A type the world was asked for: module, keyword, name.
type Asked = (Option<Box<str>>, Option<Keyword>, Box<str>);

/// What the script has declared so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub typedefs: HashMap<Box<str>, TypeId>,
    /// The world's answers: it is asked for a type once.
    pub asked: HashMap<Asked, Option<TypeId>>,
    pub tags: HashMap<(&'static str, Box<str>), TypeId>,
    pub enumerators: HashMap<Box<str>, (i64, TypeId)>,
    pub variables: HashMap<(Scope, Box<str>), VariableId>,
    pub inlines: HashMap<Box<str>, Rc<InlineDefinition>>,
    pub aggregations: HashMap<Box<str>, AggregationId>,
    /// The line each aggregation got its function in.
    pub aggregated: HashMap<AggregationId, Span>,
    pub translators: Vec<Rc<TranslatorDefinition>>,
}

impl Checker<'_> {
    /// A plain name used as a value.
    pub(super) fn name(&mut self, name: &str, span: Span) -> Checked<Expr> {
        if let Some(bound) = self.bound(name, span)? {
            return Ok(bound);
        }
        if let Some(inline) = self.names.inlines.get(name).cloned() {
            return self.inline_use(&inline, &[], span);
        }
        if let Some(id) = self.variable(Scope::Global, name) {
            return self.read_variable(id, span);
        }
        if let Some((kind, ty)) = self.builtin(name) {
            return Ok(Expr { kind, ty, span });
        }
        if let Some((value, ty)) = self.constant(name) {
            return Ok(self.int(value, ty, span));
        }
        Err(self.unknown_name(name, span))
    }

    /// The id of a variable that exists.
    pub(super) fn variable(&self, scope: Scope, name: &str) -> Option<VariableId> {
        let key: (Scope, Box<str>) = (scope, name.into());
        self.names.variables.get(&key).copied()
    }

    pub(super) fn new_variable(
        &mut self,
        scope: Scope,
        name: &str,
        ty: TypeId,
        keys: Option<Vec<TypeId>>,
    ) -> VariableId {
        let id = VariableId(self.script.variables.len() as u32);
        self.script.variables.push(Variable {
            name: name.into(),
            scope,
            ty,
            keys,
        });
        self.names.variables.insert((scope, name.into()), id);
        id
    }

    /// A variable without keys.
    pub(super) fn read_variable(&mut self, id: VariableId, span: Span) -> Checked<Expr> {
        let variable = &self.script.variables[id.0 as usize];
        if variable.keys.is_some() {
            let message = format!(
                "associative array '{}' may not be referenced as scalar",
                variable.name
            );
            return Err(Fault::new(Tag::IdentBadref, span, message));
        }
        let ty = variable.ty;
        let kind = PlaceKind::Variable(id);
        let kind = ExprKind::Read(Box::new(Place { kind, ty }));
        Ok(Expr { kind, ty, span })
    }

    /// `self->name` or `this->name` used as a value.
    pub(super) fn scoped_name(&mut self, scope: Scope, name: &str, span: Span) -> Checked<Expr> {
        match self.variable(scope, name) {
            Some(id) => self.read_variable(id, span),
            None => Err(self.undefined(scope, name, span)),
        }
    }

    /// The error for a variable that was not assigned yet.
    pub(super) fn undefined(&self, scope: Scope, name: &str, span: Span) -> Box<Fault> {
        let prefix = match scope {
            Scope::Global => return self.unknown_name(name, span),
            Scope::Thread => "self->",
            Scope::Clause => "this->",
        };
        let message = format!("{prefix}{name} has not yet been declared or assigned");
        let same_scope = self
            .names
            .variables
            .keys()
            .filter(|(known, _)| *known == scope);
        Fault::new(Tag::VarUndef, span, message)
            .suggesting(name, same_scope.map(|(_, name)| &**name))
    }

    fn unknown_name(&self, name: &str, span: Span) -> Box<Fault> {
        let (tag, message) = if functions::function(name).is_some() {
            (
                Tag::IdentBadref,
                format!("function '{name}' may not be referenced as scalar"),
            )
        } else if SPECIAL.contains(&name) && name != "curthread" {
            (
                Tag::IdentBadref,
                format!("array '{name}' may not be referenced as scalar"),
            )
        } else {
            (
                Tag::IdentUndef,
                format!("failed to resolve {name}: Unknown variable name"),
            )
        };
        Fault::new(tag, span, message).suggesting(name, self.known_names())
    }

    /// All names that a global name can be.
    fn known_names(&self) -> impl Iterator<Item = &str> {
        let globals = self
            .names
            .variables
            .keys()
            .filter(|(scope, _)| *scope == Scope::Global);
        let declared = globals.map(|(_, name)| &**name);
        declared
            .chain(self.names.inlines.keys().map(|name| &**name))
            .chain(self.names.enumerators.keys().map(|name| &**name))
            .chain(VARIABLES.iter().map(|(name, ..)| *name))
            .chain(SPECIAL.iter().copied())
            .chain(crate::library::words().map(|word| word as &str))
    }

    pub(super) fn unknown_function(&self, name: &str, span: Span) -> Box<Fault> {
        let message = format!("undefined function name: {name}");
        let fault = Fault::new(Tag::FuncUndef, span, message);
        fault.suggesting(name, FUNCTIONS.iter().map(|prototype| prototype.name))
    }

    /// A variable of the probe or the system.
    fn builtin(&mut self, name: &str) -> Option<(ExprKind, TypeId)> {
        if name == "curthread" {
            let task = self.tagged_type("struct", "task_struct");
            let ty = self.script.types.add(Type::Pointer(task));
            return Some((ExprKind::Builtin(Builtin::CurrentTask), ty));
        }
        let (_, builtin, ty) = VARIABLES.iter().find(|(known, ..)| *known == name)?;
        let ty = super::type_of_name(&mut self.script.types, ty)?;
        Some((ExprKind::Builtin(*builtin), ty))
    }

    /// Whether a name is D's own, so that it cannot be assigned or declared.
    pub(super) fn is_builtin(name: &str) -> bool {
        SPECIAL.contains(&name) || VARIABLES.iter().any(|(known, ..)| *known == name)
    }

    /// An enumerator or one of D's constants.
    pub(super) fn constant(&mut self, name: &str) -> Option<(i64, TypeId)> {
        if let Some(known) = self.names.enumerators.get(name) {
            return Some(*known);
        }
        if let Some(known) = self.world.constant(name, &mut self.script.types) {
            return Some(known);
        }
        if name == "NULL" {
            return Some((0, self.common.long));
        }
        let mut tables = REGISTERS.iter().chain(CONSTANTS);
        let (_, value) = tables.find(|(known, _)| *known == name)?;
        Some((*value, self.common.int))
    }

    /// `` module`name ``: the value at a symbol's address.
    pub(super) fn symbol(&mut self, module: Option<&str>, name: &str, span: Span) -> Checked<Expr> {
        let text = format!("{}`{name}", module.unwrap_or_default());
        let Some(symbol) = self.world.symbol(module, name, &mut self.script.types) else {
            let message = format!("failed to resolve {text}: Unknown symbol name");
            let near = self.world.symbols_like(name);
            let fault = Fault::new(Tag::IdentUndef, span, message);
            return Err(fault.suggesting(name, near.iter().map(|name| &**name)));
        };
        let Some(ty) = symbol.ty else {
            let message = format!("no symbolic type information is available for {text}");
            return Err(Fault::new(Tag::SymNotypes, span, message));
        };
        let kind = match symbol.place {
            SymbolPlace::Address(address) => {
                PlaceKind::Memory(self.int(address as i64, self.common.ulong, span))
            }
            SymbolPlace::ThreadPointer(offset) => PlaceKind::ThreadPointer { offset },
            SymbolPlace::ThreadTable { module, offset } => {
                PlaceKind::Memory(self.in_thread_table(module, offset, span))
            }
        };
        let kind = ExprKind::Read(Box::new(Place { kind, ty }));
        Ok(Expr { kind, ty, span })
    }

    /// The address of a place in the block that the thread's table has for a library.
    fn in_thread_table(&mut self, module: u64, offset: u64, span: Span) -> Expr {
        /// Where the thread pointer leads to there is its own address, then the table's.
        const TABLE: i64 = 8;
        const ENTRY: u64 = 16;
        let ty = self.common.ulong;
        let read = |kind| Expr {
            kind: ExprKind::Read(Place { kind, ty }.into()),
            ty,
            span,
        };
        let table = read(PlaceKind::ThreadPointer { offset: TABLE });
        let entry = self.moved(table, module.wrapping_mul(ENTRY) as i64, ty, span);
        let block = read(PlaceKind::Memory(entry));
        self.moved(block, offset as i64, ty, span)
    }

    /// The variable that an expression names, and whether it may come into being here.
    pub(super) fn variable_named<'e>(&self, expr: &'e ast::Expr) -> Option<(Scope, &'e str)> {
        match &expr.kind {
            ast::ExprKind::Thread(name) => Some((Scope::Thread, name)),
            ast::ExprKind::Clause(name) => Some((Scope::Clause, name)),
            ast::ExprKind::Name(name) => {
                let other = self.is_bound(name)
                    || self.names.inlines.contains_key(name)
                    || self.names.enumerators.contains_key(name);
                (!other && !Self::is_builtin(name)).then_some((Scope::Global, name))
            }
            _ => None,
        }
    }
}
