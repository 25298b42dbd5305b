//! Declarations of types and variables.

use super::Checker;
use crate::ast::{self, Base, Class};
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::Scope;
use crate::types::{Type, TypeId};

impl Checker<'_> {
    pub(super) fn declaration(&mut self, declaration: &ast::Declaration) -> Checked<()> {
        let specifiers = &declaration.specifiers;
        if declaration.declarators.is_empty() {
            let nothing = ast::Declarator {
                name: None,
                steps: Vec::new(),
                span: declaration.span,
            };
            self.declared_type(specifiers, &nothing)?;
            if !matches!(specifiers.base, Base::Record { .. } | Base::Enum { .. }) {
                return Err(Fault::new(
                    Tag::DeclUseless,
                    declaration.span,
                    "useless declaration",
                ));
            }
            return Ok(());
        }
        let nothing = ast::Declarator {
            name: None,
            steps: Vec::new(),
            span: declaration.span,
        };
        let (base, _) = self.declared_type(specifiers, &nothing)?;
        for declarator in &declaration.declarators {
            self.declarator(specifiers, base, declarator)?;
        }
        Ok(())
    }

    fn declarator(
        &mut self,
        specifiers: &ast::Specifiers,
        base: TypeId,
        declarator: &ast::Declarator,
    ) -> Checked<()> {
        let Some(name) = &declarator.name else {
            return Err(Fault::new(
                Tag::DeclUseless,
                declarator.span,
                "useless declaration",
            ));
        };
        let (ty, tuple) = self.derived_type(base, declarator)?;
        let scope = match specifiers.class {
            Some(Class::Typedef) => return self.typedef(name, ty, tuple.is_some()),
            Some(Class::Extern) => return Ok(()), // The symbol's own type is known by its debug information.
            Some(Class::Auto | Class::Register | Class::Static) => {
                let message = "specified storage class not appropriate in D";
                return Err(Fault::new(Tag::DeclBadclass, specifiers.span, message));
            }
            Some(Class::Thread) => Scope::Thread,
            Some(Class::Clause) => Scope::Clause,
            None => Scope::Global,
        };
        let keys = match tuple {
            Some(tuple) => Some(self.tuple_types(tuple)?),
            None => None,
        };
        self.refuse_variable_type(ty, scope, keys.is_some(), name)?;
        self.declare_variable(scope, name, ty, keys)
    }

    fn tuple_types(&mut self, tuple: &[ast::Parameter]) -> Checked<Vec<TypeId>> {
        tuple.iter().map(|key| self.type_name(&key.ty)).collect()
    }

    fn typedef(&mut self, name: &ast::Name, to: TypeId, dynamic: bool) -> Checked<()> {
        let fault = if dynamic {
            (
                Tag::DeclDynobj,
                format!("cannot typedef an associative array: {}", name.text),
            )
        } else if self.variable(Scope::Global, &name.text).is_some() {
            (
                Tag::DeclIdred,
                format!("global variable identifier redeclared: {}", name.text),
            )
        } else if self
            .names
            .typedefs
            .get(&name.text)
            .is_some_and(|known| !self.types().compatible(*known, to))
        {
            (Tag::DeclIdred, format!("typedef redeclared: {}", name.text))
        } else {
            let text = name.text.clone();
            let ty = self.script.types.add(Type::Typedef {
                name: text.clone(),
                to,
            });
            self.names.typedefs.insert(text, ty);
            return Ok(());
        };
        Err(Fault::new(fault.0, name.span, fault.1))
    }

    fn refuse_variable_type(
        &self,
        ty: TypeId,
        scope: Scope,
        keyed: bool,
        name: &ast::Name,
    ) -> Checked<()> {
        let types = self.types();
        let (tag, message) = match types.actual(ty) {
            _ if keyed && scope == Scope::Clause => (
                Tag::DeclLocassc,
                "associative arrays may not be declared as local variables".to_owned(),
            ),
            Type::Void => (Tag::DeclVoidobj, "cannot have void object".to_owned()),
            Type::Array { count: 0, .. } => (
                Tag::DeclArrnull,
                "array declaration requires array dimension or tuple signature".to_owned(),
            ),
            Type::Function => (
                Tag::DeclBadclass,
                "functions cannot be declared in D".to_owned(),
            ),
            Type::Incomplete { .. } => (
                Tag::DeclIncomplete,
                format!("incomplete struct/union/enum {}", types.name(ty)),
            ),
            _ => return Ok(()),
        };
        Err(Fault::new(
            tag,
            name.span,
            format!("{message}: {}", name.text),
        ))
    }

    fn declare_variable(
        &mut self,
        scope: Scope,
        name: &ast::Name,
        ty: TypeId,
        keys: Option<Vec<TypeId>>,
    ) -> Checked<()> {
        if scope == Scope::Global && Self::is_builtin(&name.text) {
            let message = format!("built-in identifier redeclared: {}", name.text);
            return Err(Fault::new(Tag::DeclIdred, name.span, message));
        }
        if let Some(id) = self.variable(scope, &name.text) {
            let known = &self.script.variables[id.0 as usize];
            let same_keys = known.keys.as_ref().map(Vec::len) == keys.as_ref().map(Vec::len);
            if same_keys && self.types().compatible(known.ty, ty) {
                return Ok(());
            }
            let (now, before) = (self.type_text(ty), self.type_text(known.ty));
            let message = format!(
                "identifier redeclared: {}\n\t current: {now}\n\tprevious: {before}",
                name.text
            );
            return Err(Fault::new(Tag::DeclIdred, name.span, message));
        }
        if scope == Scope::Global {
            self.refuse_known(&name.text, name.span)?;
        }
        self.new_variable(scope, &name.text, ty, keys);
        Ok(())
    }

    /// A name that is to be declared must not stand for something else.
    pub(super) fn refuse_known(&self, name: &str, span: Span) -> Checked<()> {
        let known = if self.names.inlines.contains_key(name) {
            "inline"
        } else if self.names.enumerators.contains_key(name) {
            "enumerator"
        } else if self.variable(Scope::Global, name).is_some() {
            "variable"
        } else if Self::is_builtin(name) {
            "built-in variable"
        } else {
            return Ok(());
        };
        let message = format!("identifier redefined: {name}\n\tprevious: {known}");
        Err(Fault::new(Tag::DeclIdred, span, message))
    }
}
