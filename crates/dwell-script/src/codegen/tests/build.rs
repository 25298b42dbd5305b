//! Makes scripts.
use crate::schema::{Aggregate, AggregationId};
use crate::span::Span;
use crate::typed::*;
use crate::types::{Type, TypeId};

/// A script with the types that tests need.
pub(super) struct Build {
    pub(super) script: Script,
    pub(super) long: TypeId,
    pub(super) int: TypeId,
    pub(super) string: TypeId,
}

impl Build {
    pub(super) fn new() -> Self {
        let mut script = Script::default();
        let int = |name: &str, size| Type::Int {
            name: name.into(),
            size,
            signed: true,
        };
        let long = script.types.add(int("long", 8));
        let int = script.types.add(int("int", 4));
        let string = script.types.add(Type::String);
        Build {
            script,
            long,
            int,
            string,
        }
    }

    pub(super) fn clause(&mut self, predicate: Option<Expr>, body: Vec<Statement>) {
        let probe = ProbePattern::default();
        self.script.clauses.push(Clause {
            probe,
            predicate,
            body,
            span: Span::default(),
        });
    }

    pub(super) fn variable(
        &mut self,
        scope: Scope,
        ty: TypeId,
        keys: Option<Vec<TypeId>>,
    ) -> VariableId {
        let name = format!("v{}", self.script.variables.len()).into();
        self.script.variables.push(Variable {
            name,
            scope,
            ty,
            keys,
        });
        VariableId(self.script.variables.len() as u32 - 1)
    }

    pub(super) fn aggregation(&mut self, function: Aggregate, keys: Vec<TypeId>) -> AggregationId {
        let aggregation = Aggregation {
            name: "".into(),
            keys,
            function: Some(function),
            signed: true,
        };
        self.script.aggregations.push(aggregation);
        AggregationId(self.script.aggregations.len() as u32 - 1)
    }

    pub(super) fn expr(&self, kind: ExprKind, ty: TypeId) -> Expr {
        Expr {
            kind,
            ty,
            span: Span::default(),
        }
    }

    pub(super) fn number(&self, value: i64) -> Expr {
        self.expr(ExprKind::Int(value), self.long)
    }

    pub(super) fn text(&self, text: &str) -> Expr {
        self.expr(ExprKind::String(text.into()), self.string)
    }

    pub(super) fn arg(&self, n: u8) -> Expr {
        self.expr(ExprKind::Builtin(Builtin::Arg(n)), self.long)
    }

    pub(super) fn binary(&self, operator: Binary, a: Expr, b: Expr) -> Expr {
        let ty = a.ty;
        self.expr(ExprKind::Binary(operator, a.into(), b.into()), ty)
    }

    pub(super) fn place(&self, id: VariableId) -> Place {
        let ty = self.script.variables[id.0 as usize].ty;
        Place {
            kind: PlaceKind::Variable(id),
            ty,
        }
    }

    pub(super) fn element(&self, id: VariableId, keys: Vec<Expr>) -> Place {
        let ty = self.script.variables[id.0 as usize].ty;
        Place {
            kind: PlaceKind::Element(id, keys),
            ty,
        }
    }

    pub(super) fn read(&self, place: Place) -> Expr {
        let ty = place.ty;
        self.expr(ExprKind::Read(place.into()), ty)
    }

    pub(super) fn assign(&self, place: Place, value: Expr) -> Statement {
        let ty = place.ty;
        Statement::Expr(self.expr(ExprKind::Assign(place.into(), value.into()), ty))
    }
}

pub(super) fn trace(e: Expr) -> Statement {
    Statement::Record(Recording::Trace(e))
}
