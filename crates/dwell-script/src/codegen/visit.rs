//! What a clause uses.
use super::clause::expressions;
use crate::typed::*;

/// What [`visit_clause`] comes by.
pub(super) enum Seen {
    Variable(VariableId),
    /// The same, where it may be given another value; told besides.
    Changed(VariableId),
    Builtin(Builtin),
    Function(Function),
}

/// Tells of every variable and builtin that a clause uses.
pub(super) fn visit_clause(clause: &Clause, tell: &mut dyn FnMut(Seen)) {
    clause.predicate.iter().for_each(|e| visit(e, tell));
    visit_statements(&clause.body, tell);
}

fn visit_statements(all: &[Statement], tell: &mut dyn FnMut(Seen)) {
    for statement in all {
        expressions(statement)
            .into_iter()
            .for_each(|e| visit(e, tell));
        if let Statement::If {
            then, otherwise, ..
        } = statement
        {
            visit_statements(then, tell);
            visit_statements(otherwise, tell);
        }
    }
}

fn visit(e: &Expr, tell: &mut dyn FnMut(Seen)) {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::String(_) => {}
        ExprKind::Builtin(builtin) => tell(Seen::Builtin(*builtin)),
        ExprKind::Read(place) => visit_place(place, tell),
        ExprKind::AddressOf(place) | ExprKind::Step { place, .. } => visit_changed(place, tell),
        ExprKind::Unary(_, a) | ExprKind::Cast(a) => visit(a, tell),
        ExprKind::Binary(_, a, b)
        | ExprKind::And(a, b)
        | ExprKind::Or(a, b)
        | ExprKind::Xor(a, b)
        | ExprKind::Comma(a, b) => {
            visit(a, tell);
            visit(b, tell);
        }
        ExprKind::Conditional(a, b, c) => [a, b, c].into_iter().for_each(|e| visit(e, tell)),
        ExprKind::Assign(place, value) | ExprKind::Update(place, _, value) => {
            visit_changed(place, tell);
            visit(value, tell);
        }
        ExprKind::Call(function, arguments) => {
            tell(Seen::Function(*function));
            arguments.iter().for_each(|e| visit(e, tell));
        }
    }
}

fn visit_changed(place: &Place, tell: &mut dyn FnMut(Seen)) {
    if let PlaceKind::Variable(id)
    | PlaceKind::Part(id, _)
    | PlaceKind::Element(id, _)
    | PlaceKind::ElementPart(id, ..) = &place.kind
    {
        tell(Seen::Changed(*id));
    }
    visit_place(place, tell);
}

fn visit_place(place: &Place, tell: &mut dyn FnMut(Seen)) {
    match &place.kind {
        PlaceKind::Variable(id) | PlaceKind::Part(id, _) => tell(Seen::Variable(*id)),
        PlaceKind::Element(id, keys) | PlaceKind::ElementPart(id, keys, _) => {
            tell(Seen::Variable(*id));
            keys.iter().for_each(|e| visit(e, tell));
        }
        PlaceKind::Memory(address) | PlaceKind::Bits { address, .. } => visit(address, tell),
        PlaceKind::ThreadPointer { .. } => {}
    }
}
