//! Clauses and statements.

use super::Parser;
use crate::ast::{Clause, Expr, Statement};
use crate::error::{Checked, Fault};
use crate::lex::{Outer, TokenKind};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::ProbePattern;

impl Parser<'_, '_> {
    /// `probe, … /predicate/ { statements }`; the first probe was read already.
    pub(super) fn clause(&mut self, first: ProbePattern) -> Checked<Clause> {
        let start = first.span.start;
        self.end = first.span.end;
        let mut probes = vec![first];
        while self.lexer.description_comma()? {
            let probe = self.further_probe()?;
            self.end = probe.span.end;
            probes.push(probe);
        }
        let predicate = self.opt_predicate()?;
        let body = match self.opt_body()? {
            Some(body) => body,
            None if predicate.is_some() => {
                let message = "expected actions { } following probe description and predicate";
                return Err(Fault::new(Tag::Syntax, self.span_from(start), message));
            }
            None => Vec::new(),
        };
        let span = Span {
            start,
            end: self.end,
        };
        Ok(Clause {
            probes,
            predicate,
            body,
            span,
        })
    }

    fn further_probe(&mut self) -> Checked<ProbePattern> {
        match self.lexer.outer(&mut |_| false)? {
            Outer::Probe(text, span) => self.probe_pattern(&text, span),
            Outer::Id(id, span) => self.probe_by_id(id, span),
            Outer::End | Outer::Declaration => Err(self.unexpected()?),
        }
    }

    /// Between items nothing may stay read ahead: the next one may be a probe description.
    fn opt_predicate(&mut self) -> Checked<Option<Expr>> {
        if !self.at("/")? {
            return Ok(None);
        }
        self.take()?;
        self.in_predicate = true;
        let predicate = self.expression()?;
        self.in_predicate = false;
        if !self.at("/")? {
            return Err(self.unexpected()?);
        }
        self.take()?;
        Ok(Some(predicate))
    }

    fn opt_body(&mut self) -> Checked<Option<Vec<Statement>>> {
        if !self.at("{")? {
            let next = self.here()?;
            self.ahead.clear();
            self.lexer.rewind(next);
            return Ok(None);
        }
        self.block().map(Some)
    }

    /// `{ statements }`.
    fn block(&mut self) -> Checked<Vec<Statement>> {
        self.expect("{")?;
        let mut body = Vec::new();
        while !self.at("}")? {
            if self.eat(";")? {
                continue;
            }
            self.statement(&mut body)?;
        }
        self.take()?;
        Ok(body)
    }

    /// An expression with its semicolon, which may be missing before a brace, or an `if`.
    fn statement(&mut self, body: &mut Vec<Statement>) -> Checked<()> {
        if self.at_word("if")? {
            let statement = self.nested(Self::if_statement)?;
            body.push(statement);
            return Ok(());
        }
        let expr = self.expression()?;
        body.push(Statement::Expr(expr));
        if !self.at("}")? {
            self.expect(";")?;
        }
        Ok(())
    }

    fn if_statement(&mut self) -> Checked<Statement> {
        self.take()?;
        self.expect("(")?;
        let condition = self.expression()?;
        self.expect(")")?;
        let then = self.branch()?;
        let otherwise = match self.eat_word("else")? {
            true => self.branch()?,
            false => Vec::new(),
        };
        Ok(Statement::If {
            condition,
            then,
            otherwise,
        })
    }

    fn branch(&mut self) -> Checked<Vec<Statement>> {
        if self.at("{")? {
            return self.nested(Self::block);
        }
        let mut body = Vec::new();
        if !self.eat(";")? {
            self.statement(&mut body)?;
        }
        Ok(body)
    }

    /// Whether the slash that comes next ends the predicate.
    pub(super) fn at_predicate_end(&mut self) -> Checked<bool> {
        if !self.in_predicate {
            return Ok(false);
        }
        let token = self.peek_at(0)?;
        let end = token.span.end;
        let slash = matches!(token.kind, TokenKind::Punctuation("/"));
        Ok(slash && self.lexer.slash_closes(end))
    }
}
