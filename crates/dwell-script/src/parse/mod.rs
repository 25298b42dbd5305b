//! Tokens to the syntax tree: one function for each production, recursive descent with a bounded depth.

mod clause;
mod declaration;
mod declarator;
mod expr;
mod operators;
mod primary;
mod probe;
mod specifiers;

use std::collections::{HashSet, VecDeque};

use crate::ast::{Expr, ExprKind, Item, Name, Program};
use crate::error::{Checked, Fault};
use crate::lex::{Lexer, Outer, Token, TokenKind, is_keyword};
use crate::span::Span;
use crate::tag::Tag;

pub use probe::Specifier;

/// How deep statements, parentheses and types may nest, and how high an expression's tree may be. Real scripts stay
/// below 40.
const DEPTH: u16 = 200;

/// Tells which names are types; what the script itself declares the parser knows.
pub(crate) trait TypeNames {
    fn is_type(&mut self, name: &str) -> bool;
}

pub(crate) struct Parser<'a, 't> {
    pub lexer: Lexer<'a>,
    ahead: VecDeque<Token<'a>>,
    names: &'t mut dyn TypeNames,
    pub typedefs: HashSet<Box<str>>,
    depth: u16,
    /// In a predicate, outside of its parentheses, a slash may be its end.
    in_predicate: bool,
    specifier: Specifier,
    /// The end of the last token that was taken.
    end: u32,
}

impl<'a, 't> Parser<'a, 't> {
    pub fn new(lexer: Lexer<'a>, specifier: Specifier, names: &'t mut dyn TypeNames) -> Self {
        Parser {
            lexer,
            ahead: VecDeque::new(),
            names,
            typedefs: HashSet::new(),
            depth: 0,
            in_predicate: false,
            specifier,
            end: 0,
        }
    }

    /// All clauses and declarations.
    pub fn program(&mut self) -> Checked<Program> {
        let mut program = Program::default();
        loop {
            debug_assert!(self.ahead.is_empty(), "nothing is read ahead between items");
            let mut is_type = |name: &str| self.typedefs.contains(name) || self.names.is_type(name);
            match self.lexer.outer(&mut is_type)? {
                Outer::End => return Ok(program),
                Outer::Declaration => self.external_declaration(&mut program.items)?,
                Outer::Probe(text, span) => {
                    let probe = self.probe_pattern(&text, span)?;
                    program.items.push(Item::Clause(self.clause(probe)?));
                }
                Outer::Id(id, span) => {
                    let probe = self.probe_by_id(id, span)?;
                    program.items.push(Item::Clause(self.clause(probe)?));
                }
            }
        }
    }

    /// The n-th token from here, without taking it.
    fn peek_at(&mut self, n: usize) -> Checked<&Token<'a>> {
        while self.ahead.len() <= n {
            let token = self.lexer.token()?;
            self.ahead.push_back(token);
        }
        Ok(&self.ahead[n])
    }

    fn peek(&mut self) -> Checked<&TokenKind<'a>> {
        Ok(&self.peek_at(0)?.kind)
    }

    fn take(&mut self) -> Checked<Token<'a>> {
        self.peek_at(0)?;
        let token = self.ahead.pop_front().expect("one token was read ahead");
        self.end = token.span.end;
        Ok(token)
    }

    fn at(&mut self, text: &str) -> Checked<bool> {
        Ok(matches!(self.peek()?, TokenKind::Punctuation(found) if *found == text))
    }

    fn at_word(&mut self, word: &str) -> Checked<bool> {
        Ok(matches!(self.peek()?, TokenKind::Name(found) if *found == word))
    }

    /// Takes the token if it is that one.
    fn eat(&mut self, text: &str) -> Checked<bool> {
        let found = self.at(text)?;
        if found {
            self.take()?;
        }
        Ok(found)
    }

    fn eat_word(&mut self, word: &str) -> Checked<bool> {
        let found = self.at_word(word)?;
        if found {
            self.take()?;
        }
        Ok(found)
    }

    fn expect(&mut self, text: &'static str) -> Checked<Span> {
        if self.at(text)? {
            return Ok(self.take()?.span);
        }
        let mut fault = self.unexpected()?;
        fault.message.push_str(&format!(": \"{text}\" expected"));
        Err(fault)
    }

    /// An identifier that is no keyword.
    fn name(&mut self) -> Checked<Name> {
        match self.peek()? {
            TokenKind::Name(word) if !is_keyword(word) => {
                let text = (*word).into();
                let span = self.take()?.span;
                Ok(Name { text, span })
            }
            _ => Err(self.unexpected()?),
        }
    }

    /// A member's name: keywords are names there.
    fn member_name(&mut self) -> Checked<Name> {
        match self.peek()? {
            TokenKind::Name(word) => {
                let text = (*word).into();
                let span = self.take()?.span;
                Ok(Name { text, span })
            }
            _ => Err(self.unexpected()?),
        }
    }

    /// The error that the next token is.
    fn unexpected(&mut self) -> Checked<Box<Fault>> {
        let token = self.peek_at(0)?;
        let message = match token.kind {
            TokenKind::End => "syntax error near end of input".into(),
            _ => format!("syntax error near \"{}\"", token.kind.text()),
        };
        Ok(Fault::new(Tag::Syntax, token.span, message))
    }

    fn here(&mut self) -> Checked<u32> {
        Ok(self.peek_at(0)?.span.start)
    }

    fn span_from(&self, start: u32) -> Span {
        Span {
            start,
            end: self.end.max(start),
        }
    }

    /// Runs a production one level deeper.
    fn nested<T>(&mut self, production: impl FnOnce(&mut Self) -> Checked<T>) -> Checked<T> {
        if self.depth >= DEPTH {
            let span = self.peek_at(0)?.span;
            return Err(too_deep(span));
        }
        self.depth += 1;
        let result = production(self);
        self.depth -= 1;
        result
    }

    /// An expression from `start` to the last token, one level above the highest of its parts.
    fn node(&self, kind: ExprKind, start: u32, below: u16) -> Checked<Expr> {
        let span = self.span_from(start);
        if below >= DEPTH {
            return Err(too_deep(span));
        }
        let height = below + 1;
        Ok(Expr { kind, span, height })
    }

    fn is_type(&mut self, name: &str) -> bool {
        self.typedefs.contains(name) || self.names.is_type(name)
    }
}

fn too_deep(span: Span) -> Box<Fault> {
    Fault::new(
        Tag::Syntax,
        span,
        "expression or declaration is nested too deeply",
    )
}
