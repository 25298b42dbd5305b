//! What the records of a clause look like.
use super::fields::{Row, Sizes, size_of};
use crate::schema::{Action, ActionKind, ClauseSchema, Field, FieldKind};
use crate::typed::{Clause, Expr, Recording, Statement};
use crate::types::{Type, Types};

/// The most bytes of what a pointer leads to that are recorded.
const PRINT_SIZE: u32 = 8192;

/// The schema of a clause, its actions in the order in which the generator comes by them.
pub(super) fn schema(types: &Types, sizes: Sizes, clause: &Clause) -> ClauseSchema {
    let mut maker = Maker {
        types,
        sizes,
        row: Row::default(),
        actions: Vec::new(),
        conditions: 0,
    };
    maker.statements(&clause.body, None);
    ClauseSchema {
        size: maker.row.size.next_multiple_of(8),
        actions: maker.actions,
        default_action: clause.default_action(),
    }
}

/// Whether a firing of the clause leaves a record at all.
pub(super) fn leaves_record(clause: &Clause, schema: &ClauseSchema) -> bool {
    clause.default_action() || !schema.actions.is_empty()
}

struct Maker<'a> {
    types: &'a Types,
    sizes: Sizes,
    row: Row,
    actions: Vec<Action>,
    conditions: u8,
}

impl Maker<'_> {
    fn statements(&mut self, statements: &[Statement], condition: Option<u8>) {
        for statement in statements {
            match statement {
                Statement::Record(recording) => {
                    let kind = self.action(recording);
                    self.actions.push(Action { condition, kind });
                }
                Statement::If {
                    then, otherwise, ..
                } => {
                    for branch in [then, otherwise] {
                        let bit = self.conditions;
                        self.conditions = (bit + 1).min(63);
                        self.statements(branch, Some(bit));
                    }
                }
                _ => {}
            }
        }
    }

    fn field(&mut self, e: &Expr) -> Field {
        self.row.field(self.types, self.sizes, e.ty)
    }

    fn fields(&mut self, all: &[Expr]) -> Vec<Field> {
        all.iter().map(|e| self.field(e)).collect()
    }

    /// What a pointer leads to is printed, too, if it has a size.
    fn print(&mut self, e: &Expr) -> ActionKind {
        let address = self.field(e);
        if let Type::Pointer(to) = self.types.actual(e.ty) {
            let size = size_of(self.types, self.sizes, *to).min(PRINT_SIZE);
            if size > 0 {
                let value = self.row.place(size, FieldKind::Typed(*to));
                return ActionKind::PrintAt { address, value };
            }
        }
        ActionKind::Print(Field {
            kind: FieldKind::Typed(e.ty),
            ..address
        })
    }

    fn action(&mut self, recording: &Recording) -> ActionKind {
        match recording {
            Recording::Trace(e) => ActionKind::Trace(self.field(e)),
            Recording::Tracemem { size, length, .. } => ActionKind::Tracemem {
                bytes: self.row.place(*size, FieldKind::Bytes),
                length: length.as_ref().map(|e| self.field(e)),
            },
            Recording::Print(e) => self.print(e),
            Recording::Printf(format, arguments) => ActionKind::Printf {
                format: format.clone(),
                fields: self.fields(arguments),
            },
            Recording::Printa(format, aggregations) => ActionKind::Printa {
                format: format.clone(),
                aggregations: aggregations.clone(),
            },
            Recording::Clear(of) => ActionKind::Clear(*of),
            Recording::Trunc(of, n) => ActionKind::Trunc(*of, n.as_ref().map(|e| self.field(e))),
            Recording::Normalize(of, by) => ActionKind::Normalize(*of, self.field(by)),
            Recording::Denormalize(of) => ActionKind::Denormalize(*of),
            Recording::Exit(status) => ActionKind::Exit(self.field(status)),
            Recording::Speculate(id) => ActionKind::Speculate(self.field(id)),
            Recording::Commit(id) => ActionKind::Commit(self.field(id)),
            Recording::Discard(id) => ActionKind::Discard(self.field(id)),
            Recording::System(format, arguments) => ActionKind::System {
                format: format.clone(),
                fields: self.fields(arguments),
            },
            Recording::Freopen(format, arguments) => ActionKind::Freopen {
                format: format.clone(),
                fields: self.fields(arguments),
            },
            Recording::Setopt(name, value) => ActionKind::Setopt {
                name: name.clone(),
                value: value.clone(),
            },
        }
    }
}
