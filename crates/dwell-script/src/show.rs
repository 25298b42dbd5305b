//! The checked form as text, for tests and for `-S`: operators before their operands, types behind values where they
//! are not plain.

use std::fmt;

use crate::typed::{Clause, Expr, ExprKind, Place, PlaceKind, Recording, Scope, Script, Statement};

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for clause in &self.clauses {
            let shown = Shown(self);
            writeln!(f, "{}", shown.clause(clause))?;
        }
        Ok(())
    }
}

struct Shown<'s>(&'s Script);

impl Shown<'_> {
    fn clause(&self, clause: &Clause) -> String {
        let probe = &clause.probe;
        let mut text = match probe.id {
            Some(id) => id.to_string(),
            None => {
                let full = [
                    &*probe.provider,
                    &*probe.module,
                    &*probe.function,
                    &*probe.name,
                ]
                .join(":");
                full.trim_start_matches(':').to_owned()
            }
        };
        if let Some(predicate) = &clause.predicate {
            text.push_str(&format!(" /{}/", self.expr(predicate)));
        }
        text.push_str(&format!(" {}", self.block(&clause.body)));
        text
    }

    fn block(&self, body: &[Statement]) -> String {
        let statements: Vec<String> = body
            .iter()
            .map(|statement| self.statement(statement))
            .collect();
        if statements.is_empty() {
            return "{ }".into();
        }
        format!("{{ {} }}", statements.join(" "))
    }

    fn statement(&self, statement: &Statement) -> String {
        match statement {
            Statement::Expr(expr) => format!("{};", self.expr(expr)),
            Statement::Aggregate {
                to,
                keys,
                value,
                increment,
            } => {
                let function = self.0.aggregations[to.0 as usize].function;
                let name = function.map_or("?".into(), |function| {
                    format!("{function:?}").to_lowercase()
                });
                let keys = if keys.is_empty() {
                    String::new()
                } else {
                    format!("[{}]", self.list(keys))
                };
                let times = increment
                    .as_ref()
                    .map_or(String::new(), |times| format!(", {}", self.expr(times)));
                format!("@{}{keys} = {name}({}{times});", to.0, self.expr(value))
            }
            Statement::Record(recording) => format!("{};", self.recording(recording)),
            Statement::If {
                condition,
                then,
                otherwise,
            } => {
                let otherwise = match otherwise.is_empty() {
                    true => String::new(),
                    false => format!(" else {}", self.block(otherwise)),
                };
                format!(
                    "if ({}) {}{otherwise}",
                    self.expr(condition),
                    self.block(then)
                )
            }
            Statement::Act(act, arguments) => format!(
                "{}({});",
                format!("{act:?}").to_lowercase(),
                self.list(arguments)
            ),
        }
    }

    fn recording(&self, recording: &Recording) -> String {
        match recording {
            Recording::Trace(value) => format!("trace({})", self.expr(value)),
            Recording::Tracemem {
                address,
                size,
                length,
            } => {
                let length = length
                    .as_ref()
                    .map_or(String::new(), |length| format!(", {}", self.expr(length)));
                format!("tracemem({}, {size}{length})", self.expr(address))
            }
            Recording::Print(value) => format!("print({})", self.expr(value)),
            Recording::Printf(format, values) => self.formatted("printf", format, values),
            Recording::System(format, values) => self.formatted("system", format, values),
            Recording::Freopen(format, values) => self.formatted("freopen", format, values),
            Recording::Printa(format, ids) => {
                let ids: Vec<String> = ids.iter().map(|id| format!("@{}", id.0)).collect();
                let format = format
                    .as_ref()
                    .map_or(String::new(), |format| format!("{format:?}, "));
                format!("printa({format}{})", ids.join(", "))
            }
            Recording::Clear(id) => format!("clear(@{})", id.0),
            Recording::Trunc(id, count) => {
                let count = count
                    .as_ref()
                    .map_or(String::new(), |count| format!(", {}", self.expr(count)));
                format!("trunc(@{}{count})", id.0)
            }
            Recording::Normalize(id, by) => format!("normalize(@{}, {})", id.0, self.expr(by)),
            Recording::Denormalize(id) => format!("denormalize(@{})", id.0),
            Recording::Exit(value) => format!("exit({})", self.expr(value)),
            Recording::Speculate(value) => format!("speculate({})", self.expr(value)),
            Recording::Commit(value) => format!("commit({})", self.expr(value)),
            Recording::Discard(value) => format!("discard({})", self.expr(value)),
            Recording::Setopt(name, value) => {
                let value = value
                    .as_ref()
                    .map_or(String::new(), |value| format!(", {value:?}"));
                format!("setopt({name:?}{value})")
            }
        }
    }

    fn formatted(&self, name: &str, format: &str, values: &[Expr]) -> String {
        let values: String = values
            .iter()
            .map(|value| format!(", {}", self.expr(value)))
            .collect();
        format!("{name}({format:?}{values})")
    }

    fn list(&self, values: &[Expr]) -> String {
        let values: Vec<String> = values.iter().map(|value| self.expr(value)).collect();
        values.join(", ")
    }

    /// A value with its type where that is neither `int` nor `string`.
    fn expr(&self, expr: &Expr) -> String {
        let types = &self.0.types;
        let ty = types.name(types.resolved(expr.ty));
        let text = self.kind(expr);
        let typed = matches!(
            expr.kind,
            ExprKind::Int(_) | ExprKind::Read(_) | ExprKind::Builtin(_)
        );
        match ty.as_str() {
            "int" | "string" => text,
            _ if !typed => text,
            _ => format!("{text}:{ty}"),
        }
    }

    fn kind(&self, expr: &Expr) -> String {
        let prefix = |operator: String, operands: &[&Expr]| {
            let operands: String = operands
                .iter()
                .map(|operand| format!(" {}", self.expr(operand)))
                .collect();
            format!("({operator}{operands})")
        };
        match &expr.kind {
            ExprKind::Int(value) => value.to_string(),
            ExprKind::String(text) => format!("{text:?}"),
            ExprKind::Read(place) => self.place(place),
            ExprKind::Builtin(builtin) => builtin_text(*builtin),
            ExprKind::AddressOf(place) => format!("&{}", self.place(place)),
            ExprKind::Unary(operator, of) => prefix(format!("{operator:?}").to_lowercase(), &[of]),
            ExprKind::Binary(operator, a, b) => {
                prefix(crate::check::operator_text(*operator).into(), &[a, b])
            }
            ExprKind::And(a, b) => prefix("&&".into(), &[a, b]),
            ExprKind::Or(a, b) => prefix("||".into(), &[a, b]),
            ExprKind::Xor(a, b) => prefix("^^".into(), &[a, b]),
            ExprKind::Conditional(a, b, c) => prefix("?".into(), &[a, b, c]),
            ExprKind::Cast(of) => format!("({}){}", self.0.types.name(expr.ty), self.expr(of)),
            ExprKind::Assign(place, value) => {
                format!("({} = {})", self.place(place), self.expr(value))
            }
            ExprKind::Update(place, operator, value) => {
                let operator = crate::check::operator_text(*operator);
                format!("({} {operator}= {})", self.place(place), self.expr(value))
            }
            ExprKind::Step { place, by, postfix } => {
                let when = if *postfix { "after" } else { "before" };
                format!("({} {by:+} {when})", self.place(place))
            }
            ExprKind::Comma(a, b) => prefix(",".into(), &[a, b]),
            ExprKind::Call(function, arguments) => {
                format!(
                    "{}({})",
                    format!("{function:?}").to_lowercase(),
                    self.list(arguments)
                )
            }
        }
    }

    fn place(&self, place: &Place) -> String {
        let variable = |id: crate::typed::VariableId| {
            let variable = &self.0.variables[id.0 as usize];
            let scope = match variable.scope {
                Scope::Global => "",
                Scope::Thread => "self->",
                Scope::Clause => "this->",
            };
            format!("{scope}{}", variable.name)
        };
        match &place.kind {
            PlaceKind::Variable(id) => variable(*id),
            PlaceKind::Element(id, keys) => format!("{}[{}]", variable(*id), self.list(keys)),
            PlaceKind::ElementPart(id, keys, offset) => {
                format!("{}[{}]+{offset}", variable(*id), self.list(keys))
            }
            PlaceKind::Memory(address) => format!("*{}", self.expr(address)),
            PlaceKind::Bits {
                address,
                shift,
                width,
            } => format!("*{}<{shift}+{width}>", self.expr(address)),
            PlaceKind::ThreadPointer { offset } => format!("%fs:{offset}"),
            PlaceKind::Part(id, offset) => format!("{}+{offset}", variable(*id)),
        }
    }
}

fn builtin_text(builtin: crate::typed::Builtin) -> String {
    use crate::typed::Builtin::{Arg, Register};
    match builtin {
        Arg(n) => format!("arg{n}"),
        Register(n) => format!("uregs[{n}]"),
        other => format!("{other:?}").to_lowercase(),
    }
}
