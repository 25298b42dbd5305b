//! How large a checked expression is.

use crate::typed::{Expr, ExprKind, Place, PlaceKind};

/// The size of an expression.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extent {
    /// The number of expressions and places in it.
    pub size: u32,
    /// The length of the longest way to a leaf.
    pub height: u32,
}

impl Extent {
    fn with(self, below: Extent) -> Extent {
        Extent {
            size: self.size.saturating_add(below.size),
            height: self.height.max(below.height + 1),
        }
    }
}

impl Expr {
    pub(crate) fn extent(&self) -> Extent {
        let mut extent = Extent { size: 1, height: 1 };
        self.children(&mut |below| extent = extent.with(below.extent()));
        extent
    }

    /// Visits the expressions directly below this one.
    pub(crate) fn children(&self, visit: &mut dyn FnMut(&Expr)) {
        match &self.kind {
            ExprKind::Int(_) | ExprKind::String(_) | ExprKind::Builtin(_) => {}
            ExprKind::Read(place) | ExprKind::AddressOf(place) | ExprKind::Step { place, .. } => {
                place.children(visit)
            }
            ExprKind::Unary(_, of) | ExprKind::Cast(of) => visit(of),
            ExprKind::Binary(_, a, b)
            | ExprKind::And(a, b)
            | ExprKind::Or(a, b)
            | ExprKind::Xor(a, b)
            | ExprKind::Comma(a, b) => [a, b].into_iter().for_each(|expr| visit(expr)),
            ExprKind::Conditional(a, b, c) => [a, b, c].into_iter().for_each(|expr| visit(expr)),
            ExprKind::Assign(place, value) | ExprKind::Update(place, _, value) => {
                place.children(visit);
                visit(value);
            }
            ExprKind::Call(_, arguments) => arguments.iter().for_each(visit),
        }
    }
}

impl Place {
    /// Visits the expressions that tell where the place is.
    pub(crate) fn children(&self, visit: &mut dyn FnMut(&Expr)) {
        match &self.kind {
            PlaceKind::Variable(_) | PlaceKind::ThreadPointer { .. } | PlaceKind::Part(..) => {}
            PlaceKind::Element(_, keys) | PlaceKind::ElementPart(_, keys, _) => {
                keys.iter().for_each(visit)
            }
            PlaceKind::Memory(address) | PlaceKind::Bits { address, .. } => visit(address),
        }
    }
}
