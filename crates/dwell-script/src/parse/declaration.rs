//! Declarations, inlines, translators and providers.

use super::Parser;
use crate::ast::{Class, Declaration, Inline, Item, Translator};
use crate::error::{Checked, Fault};
use crate::tag::Tag;

impl Parser<'_, '_> {
    pub(super) fn external_declaration(&mut self, items: &mut Vec<Item>) -> Checked<()> {
        if self.at_word("inline")? {
            items.push(Item::Inline(self.inline_definition()?));
        } else if self.at_word("translator")? {
            items.push(Item::Translator(self.translator()?));
        } else if self.at_word("provider")? {
            self.provider()?;
        } else {
            items.push(Item::Declaration(self.declaration()?));
        }
        Ok(())
    }

    fn declaration(&mut self) -> Checked<Declaration> {
        let start = self.here()?;
        let specifiers = self.specifiers()?;
        let mut declarators = Vec::new();
        while !self.at(";")? {
            let declarator = self.declarator()?;
            if declarator.name.is_none() {
                return Err(self.unexpected()?);
            }
            declarators.push(declarator);
            if !self.at(";")? {
                self.expect(",")?;
            }
        }
        self.expect(";")?;
        if specifiers.class == Some(Class::Typedef) {
            let names = declarators
                .iter()
                .filter_map(|declarator| declarator.name.as_ref());
            self.typedefs.extend(names.map(|name| name.text.clone()));
        }
        let span = self.span_from(start);
        Ok(Declaration {
            specifiers,
            declarators,
            span,
        })
    }

    /// `inline type name = value;`
    fn inline_definition(&mut self) -> Checked<Inline> {
        let start = self.here()?;
        self.take()?;
        let specifiers = self.specifiers()?;
        let declarator = self.declarator()?;
        if declarator.name.is_none() {
            let message = "inline declaration requires a name";
            return Err(Fault::new(Tag::DeclUseless, self.span_from(start), message));
        }
        self.expect("=")?;
        let value = self.assignment()?;
        self.expect(";")?;
        let span = self.span_from(start);
        Ok(Inline {
            specifiers,
            declarator,
            value,
            span,
        })
    }

    /// `translator to < from name > { member = value; … };`
    fn translator(&mut self) -> Checked<Translator> {
        let start = self.here()?;
        self.take()?;
        let to = self.type_name()?;
        self.expect("<")?;
        let from = self.parameter()?;
        let Some(input) = from.name else {
            return Err(self.unexpected()?);
        };
        self.expect(">")?;
        let span = self.span_from(start);
        self.expect("{")?;
        let mut members = Vec::new();
        while !self.eat("}")? {
            let name = self.member_name()?;
            self.expect("=")?;
            let value = self.assignment()?;
            self.expect(";")?;
            members.push((name, value));
        }
        self.expect(";")?;
        Ok(Translator {
            to,
            from: from.ty,
            input: input.text,
            members,
            span,
        })
    }

    /// `provider name { probe name(types); … };`: read for its form; probes are looked up in the programs.
    fn provider(&mut self) -> Checked<()> {
        self.take()?;
        let name = self.name()?;
        if name.text.ends_with(|c: char| c.is_ascii_digit()) {
            let message = format!("provider name may not end with a digit: {}", name.text);
            return Err(Fault::new(Tag::ProvBadname, name.span, message));
        }
        self.expect("{")?;
        while !self.eat("}")? {
            if !self.eat_word("probe")? {
                return Err(self.unexpected()?);
            }
            self.name()?;
            self.expect("(")?;
            self.parameters(")")?;
            if self.eat(":")? {
                self.expect("(")?;
                self.parameters(")")?;
            }
            self.expect(";")?;
        }
        self.expect(";")?;
        Ok(())
    }
}
