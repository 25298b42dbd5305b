//! Calls of D's functions in expressions, and their prototypes.

use super::Checker;
use super::arith::is_null;
use crate::ast;
use crate::builtins::functions::{self, Callee, Prototype};
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Expr, ExprKind, Function};
use crate::types::{Type, TypeId};

impl Checker<'_> {
    /// The function that a call names.
    pub(super) fn callee(&self, callee: &ast::Expr) -> Checked<&'static Prototype> {
        let ast::ExprKind::Name(name) = &callee.kind else {
            let message = "function designator is not of function type";
            return Err(Fault::new(Tag::FuncIdent, callee.span, message));
        };
        if let Some(prototype) = functions::function(name) {
            return Ok(prototype);
        }
        let scalar = Self::is_builtin(name)
            || self.names.inlines.contains_key(name)
            || self.variable(crate::typed::Scope::Global, name).is_some();
        if scalar {
            let message = format!("scalar '{name}' may not be referenced as a function");
            return Err(Fault::new(Tag::FuncIdkind, callee.span, message));
        }
        Err(self.unknown_function(name, callee.span))
    }

    /// Whether an expression is the call of an action: it has no value.
    pub(super) fn is_action(&self, expr: &ast::Expr) -> bool {
        let ast::ExprKind::Call(callee, _) = &expr.kind else {
            return false;
        };
        let prototype = self.callee(callee).ok();
        prototype.is_some_and(|found| matches!(found.callee, Callee::Action(_) | Callee::Act(_)))
    }

    /// A call whose value is used. An action has none: what is done with it is refused by its type first, as dtrace
    /// does, and else by [`Self::refuse_misplaced`].
    pub(super) fn call(
        &mut self,
        callee: &ast::Expr,
        arguments: &[ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let prototype = self.callee(callee)?;
        let kind = match prototype.callee {
            Callee::Value(function) if !gives_address(function) => {
                return self.function_call(prototype, function, arguments, span);
            }
            Callee::Missing(why) => {
                check_count(prototype, arguments.len(), span)?;
                return Err(missing(prototype, why, span));
            }
            Callee::Aggregating(_) => "aggregating function",
            _ => "action",
        };
        check_count(prototype, arguments.len(), span)?;
        let value = match prototype.callee {
            Callee::Stack(user) => Some(self.stack(prototype, user, arguments, span)?),
            Callee::Value(function) => {
                Some(self.address_by_name(prototype, function, arguments, span)?)
            }
            _ => None,
        };
        let message = format!(
            "{kind} {}( ) may not be called from a D expression (D program context required)",
            prototype.name
        );
        let nothing = self.misplaced(Fault::new(Tag::CgExpr, span, message));
        Ok(value.unwrap_or(nothing))
    }

    /// Something that has no value, where a value is wanted.
    pub(super) fn misplaced(&mut self, fault: Box<Fault>) -> Expr {
        let span = fault.span;
        self.misplaced.get_or_insert(fault);
        self.int(1, self.common.void, span)
    }

    /// The error for the first misplaced action of a statement, if nothing else was wrong.
    pub(super) fn refuse_misplaced(&mut self) -> Checked<()> {
        self.misplaced.take().map_or(Ok(()), Err)
    }

    /// A value that is only recorded, as a key or an argument of an action: stacks and addresses by name are such.
    pub(super) fn recorded(&mut self, expr: &ast::Expr) -> Checked<Expr> {
        let ast::ExprKind::Call(callee, arguments) = &expr.kind else {
            return self.expr(expr);
        };
        let prototype = self.callee(callee)?;
        match prototype.callee {
            Callee::Stack(user) => self.stack(prototype, user, arguments, expr.span),
            Callee::Value(function @ (Function::KernelAddress(_) | Function::UserAddress(_))) => {
                self.address_by_name(prototype, function, arguments, expr.span)
            }
            _ => self.expr(expr),
        }
    }

    fn function_call(
        &mut self,
        prototype: &'static Prototype,
        function: Function,
        arguments: &[ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let arguments = self.arguments(prototype, arguments, span)?;
        if let (Function::Alloca, Some(ExprKind::Int(size))) =
            (function, arguments.first().map(|a| &a.kind))
        {
            self.check_alloca(*size, span)?;
        }
        let mut arguments = arguments;
        if function == Function::Progenyof {
            arguments.extend(self.places_of_parents(span)?);
        }
        let ty = self.prototype_type(prototype.gives);
        let kind = ExprKind::Call(function, arguments);
        Ok(Expr { kind, ty, span })
    }

    /// Where a `task_struct` has its parent and its process' number, bytes.
    fn places_of_parents(&mut self, span: Span) -> Checked<[Expr; 2]> {
        let task = self.tagged_type("struct", "task_struct");
        let task = self.completed(task);
        let place = |name: &str| {
            let name = ast::Name {
                text: name.into(),
                span,
            };
            let found = self.find_member(task, &name);
            let found = found.map_err(|_| {
                let message = "progenyof( ) needs the kernel's types (/sys/kernel/btf/vmlinux)";
                Fault::new(Tag::FuncUndef, span, message)
            })?;
            let bytes = i64::from(found.offset_bits / 8);
            Checked::Ok(self.int(bytes, self.common.long, span))
        };
        Ok([place("real_parent")?, place("tgid")?])
    }

    fn check_alloca(&self, size: i64, span: Span) -> Checked<()> {
        let room = self.options.number("scratchsize").unwrap_or(256 << 10);
        if (0..=room - 8).contains(&size) {
            return Ok(());
        }
        let message = format!("alloca({size}) size larger than scratchsize {}", room - 8);
        Err(Fault::new(Tag::AllocaSize, span, message))
    }

    /// The arguments by the prototype, converted.
    pub(super) fn arguments(
        &mut self,
        prototype: &'static Prototype,
        arguments: &[ast::Expr],
        span: Span,
    ) -> Checked<Vec<Expr>> {
        check_count(prototype, arguments.len(), span)?;
        let mut values = Vec::new();
        for (at, argument) in arguments.iter().enumerate() {
            let value = self.expr(argument)?;
            let parameter = prototype.takes.get(at).copied().unwrap_or("...");
            values.push(self.argument_for(prototype, at, parameter, value)?);
        }
        Ok(values)
    }

    fn argument_for(
        &mut self,
        prototype: &Prototype,
        at: usize,
        parameter: &str,
        value: Expr,
    ) -> Checked<Expr> {
        let wanted = parameter.trim_matches(['[', ']']);
        let types = self.types();
        let (is_int, is_pointer) = (types.is_int(value.ty), types.is_pointer_like(value.ty));
        let value = match wanted {
            "@" | "..." => return Ok(value),
            "const char *" if types.is_string_like(value.ty) => {
                let string = self.common.string;
                return Ok(self.convert(value, string));
            }
            "const char *" if is_null(&value) && prototype.name == "strtok" => {
                return Ok(self.int(0, self.common.string, value.span));
            }
            "const char *" if is_null(&value) => return Ok(self.string("", value.span)),
            "const char *" => Err(value),
            "char *" if types.is_string_like(value.ty) => return Ok(value),
            "uintptr_t" if is_int || is_pointer => Ok(self.decayed(value)),
            pointer if pointer.ends_with('*') => {
                match is_pointer || types.is_string(value.ty) || is_null(&value) {
                    true => return Ok(self.pointer(value)),
                    false => Err(value),
                }
            }
            _ if is_int && matches!(prototype.callee, Callee::Aggregating(_)) => return Ok(value),
            _ if is_int => Ok(value),
            _ => Err(value),
        };
        match value {
            Ok(value) => {
                let ty = self.prototype_type(wanted);
                Ok(self.convert(value, ty))
            }
            Err(value) => Err(self.wrong_argument(prototype.name, at, wanted, &value)),
        }
    }

    /// The error for an argument of the wrong type.
    pub(super) fn wrong_argument(
        &self,
        name: &str,
        at: usize,
        wanted: &str,
        value: &Expr,
    ) -> Box<Fault> {
        let message = format!(
            "{name}( ) argument #{} is incompatible with prototype:\n\tprototype: {wanted}\n\t argument: {}",
            at + 1,
            self.type_text(value.ty)
        );
        Fault::new(Tag::ProtoArg, value.span, message)
    }

    /// A type named by a prototype.
    fn prototype_type(&mut self, name: &str) -> TypeId {
        match name {
            "void *" => self.common.void_pointer,
            _ => super::type_of_name(&mut self.script.types, name).unwrap_or(self.common.int),
        }
    }

    fn stack(
        &mut self,
        prototype: &Prototype,
        user: bool,
        arguments: &[ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        check_count(prototype, arguments.len(), span)?;
        let default = match prototype.name {
            "stack" => self.options.number("stackframes").unwrap_or(20),
            "ustack" => self.options.number("ustackframes").unwrap_or(100),
            _ => self.options.number("jstackframes").unwrap_or(50),
        };
        let frames = match arguments.first() {
            Some(frames) => self.stack_size(prototype.name, user, frames)?,
            None => default.clamp(0, i64::from(u16::MAX)) as u16,
        };
        if let Some(strings) = arguments.get(1) {
            let strings = self.value(strings)?;
            if !self.types().is_int(strings.ty) {
                return Err(self.wrong_argument(prototype.name, 1, "uint32_t", &strings));
            }
            if !matches!(strings.kind, ExprKind::Int(0..)) {
                let message = format!(
                    "{}( ) argument #2 must be a positive integer constant",
                    prototype.name
                );
                return Err(Fault::new(Tag::UstackStrsize, strings.span, message));
            }
        }
        let ty = self.script.types.add(Type::Stack { user, frames });
        let function = if user {
            Function::UserStack
        } else {
            Function::Stack
        };
        let kind = ExprKind::Call(function, Vec::new());
        Ok(Expr { kind, ty, span })
    }

    fn stack_size(&mut self, name: &str, user: bool, frames: &ast::Expr) -> Checked<u16> {
        let value = self.value(frames)?;
        if !self.types().is_int(value.ty) {
            return Err(self.wrong_argument(name, 0, "uint32_t", &value));
        }
        match value.kind {
            ExprKind::Int(frames @ 1..=0xffff) => Ok(frames as u16),
            _ => {
                let tag = if user {
                    Tag::UstackFrames
                } else {
                    Tag::StackSize
                };
                let message =
                    format!("{name}( ) argument #1 must be a non-zero positive integer constant");
                Err(Fault::new(tag, frames.span, message))
            }
        }
    }

    fn address_by_name(
        &mut self,
        prototype: &'static Prototype,
        function: Function,
        arguments: &[ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let arguments = self.arguments(prototype, arguments, span)?;
        let ty = match function {
            Function::UserAddress(part) => Type::Address { user: true, part },
            Function::KernelAddress(part) => Type::Address { user: false, part },
            _ => unreachable!("only called for these"),
        };
        let ty = self.script.types.add(ty);
        let kind = ExprKind::Call(function, arguments);
        Ok(Expr { kind, ty, span })
    }
}

/// Whether there are as many arguments as the prototype says.
pub(super) fn check_count(prototype: &Prototype, count: usize, span: Span) -> Checked<()> {
    let required = prototype
        .takes
        .iter()
        .filter(|p| !p.starts_with('[') && **p != "...")
        .count();
    let open = prototype.takes.last() == Some(&"...");
    let most = prototype.takes.len();
    let (limit, bound) = if count < required {
        (
            required,
            if open || most > required {
                "at least "
            } else {
                ""
            },
        )
    } else if !open && count > most {
        (most, if most > required { "at most " } else { "" })
    } else {
        return Ok(());
    };
    let plural = if count == 1 { "arg" } else { "args" };
    let name = prototype.name;
    let message =
        format!("{name}( ) prototype mismatch: {count} {plural} passed, {bound}{limit} expected");
    Err(Fault::new(Tag::ProtoLen, span, message))
}

/// `sym` and its kind: only recorded.
pub(super) fn gives_address(function: Function) -> bool {
    matches!(
        function,
        Function::KernelAddress(_) | Function::UserAddress(_)
    )
}

pub(super) fn missing(prototype: &Prototype, why: &str, span: Span) -> Box<Fault> {
    let message = format!("{}( ) is not available: {why}", prototype.name);
    Fault::new(Tag::FuncUndef, span, message)
}
