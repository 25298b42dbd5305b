//! The syntax tree: what stands in the source, before any name is looked up.

use crate::lex::IntToken;
use crate::span::Span;
use crate::typed::{Binary, ProbePattern, Unary};

/// A whole source, in its order.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub items: Vec<Item>,
}

#[derive(Debug)]
pub(crate) enum Item {
    Clause(Clause),
    Declaration(Declaration),
    Inline(Inline),
    Translator(Translator),
}

#[derive(Debug)]
pub(crate) struct Clause {
    pub probes: Vec<ProbePattern>,
    pub predicate: Option<Expr>,
    pub body: Vec<Statement>,
    pub span: Span,
}

#[derive(Debug)]
pub(crate) enum Statement {
    Expr(Expr),
    If {
        condition: Expr,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
}

/// `class base declarator, declarator;`
#[derive(Debug)]
pub(crate) struct Declaration {
    pub specifiers: Specifiers,
    pub declarators: Vec<Declarator>,
    pub span: Span,
}

/// `inline type name = value;`, with parameters for an inline that takes keys.
#[derive(Debug)]
pub(crate) struct Inline {
    pub specifiers: Specifiers,
    pub declarator: Declarator,
    pub value: Expr,
    pub span: Span,
}

/// `translator to < from name > { member = value; … };`
#[derive(Debug)]
pub(crate) struct Translator {
    pub to: TypeName,
    pub from: TypeName,
    pub input: Box<str>,
    pub members: Vec<(Name, Expr)>,
    pub span: Span,
}

/// A name and its place.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub text: Box<str>,
    pub span: Span,
}

/// A storage class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Auto,
    Register,
    Static,
    Extern,
    Typedef,
    Thread,
    Clause,
}

#[derive(Debug)]
pub(crate) struct Specifiers {
    pub class: Option<Class>,
    pub base: Base,
    pub span: Span,
}

/// What a declaration's declarators build upon.
#[derive(Debug)]
pub(crate) enum Base {
    /// `unsigned long`, …: the words in their order.
    Words(Vec<&'static str>),
    /// A typedef's name, of a module's where that is said.
    Name(Option<Box<str>>, Box<str>),
    /// `struct tag { … }`; a tag, a body or both.
    Record {
        keyword: &'static str,
        tag: Option<Box<str>>,
        members: Option<Vec<MemberDeclaration>>,
    },
    Enum {
        tag: Option<Box<str>>,
        values: Option<Vec<(Name, Option<Expr>)>>,
    },
}

/// One declaration within a struct: its declarators, each with the width of a bit-field.
#[derive(Debug)]
pub(crate) struct MemberDeclaration {
    pub specifiers: Specifiers,
    pub members: Vec<(Declarator, Option<Expr>)>,
}

/// What is declared: a name, and how its type is made of the base, step by step.
#[derive(Debug)]
pub(crate) struct Declarator {
    pub name: Option<Name>,
    pub steps: Vec<Step>,
    pub span: Span,
}

/// One step from a base type to the declared one.
#[derive(Debug)]
pub(crate) enum Step {
    Pointer,
    Array(Option<Expr>),
    /// The keys of an associative array.
    Tuple(Vec<Parameter>),
    Function,
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub ty: TypeName,
    pub name: Option<Name>,
}

/// A type without a name of its own: in casts, `sizeof` and the like.
#[derive(Debug)]
pub(crate) struct TypeName {
    pub specifiers: Specifiers,
    pub declarator: Declarator,
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub kind: ExprKind,
    pub span: Span,
    /// The length of the longest way to a leaf; bounded, since the tree is walked recursively.
    pub height: u16,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Int(IntToken),
    String(Box<str>),
    Name(Box<str>),
    /// `` module`name ``.
    Symbol(Option<Box<str>>, Box<str>),
    /// `@name`.
    Aggregation(Box<str>),
    /// `self->name`.
    Thread(Box<str>),
    /// `this->name`.
    Clause(Box<str>),
    Index(Box<Expr>, Vec<Expr>),
    Call(Box<Expr>, Vec<Expr>),
    /// `a.b`, or `a->b` if the flag is set.
    Member(Box<Expr>, Name, bool),
    Unary(Unary, Box<Expr>),
    /// `+x`.
    Plus(Box<Expr>),
    AddressOf(Box<Expr>),
    Dereference(Box<Expr>),
    Step {
        of: Box<Expr>,
        by: i64,
        postfix: bool,
    },
    SizeofExpr(Box<Expr>),
    SizeofType(Box<TypeName>),
    Offsetof(Box<TypeName>, Name),
    Stringof(Box<Expr>),
    Xlate(Box<TypeName>, Box<Expr>),
    Cast(Box<TypeName>, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Logical(Logical, Box<Expr>, Box<Expr>),
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    Assign(Option<Binary>, Box<Expr>, Box<Expr>),
    Comma(Box<Expr>, Box<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logical {
    And,
    Or,
    Xor,
}
