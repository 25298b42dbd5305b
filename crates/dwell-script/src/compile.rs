//! A script's text to its checked form.

use crate::check::Checker;
use crate::error::{Checked, Error, Fault};
use crate::lex::Lexer;
use crate::lines::Lines;
use crate::macros::Macros;
use crate::options::Options;
use crate::parse::{Parser, Specifier, TypeNames};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::Script;
use crate::types::Types;
use crate::world::World;

/// The longest source, in bytes: places in it are 32 bits, and no script comes near.
const LONGEST: usize = 16 << 20;

/// A script and what was said about it on the command line.
#[derive(Debug, Clone, Default)]
pub struct Input<'a> {
    /// The text; after the preprocessor, if it was asked for.
    pub source: &'a str,
    /// `$0` and further arguments, `$target` and the like.
    pub macros: Macros<'a>,
    /// What the last part of a short probe description is.
    pub specifier: Specifier,
    /// The options given by `-x` and the like; pragmas of the script add to them.
    pub options: Options,
}

/// Compiles a script: to its checked form, and the options that it ends up with.
///
/// Pure: what lies outside of the script is asked of `world`.
pub fn compile(input: &Input<'_>, world: &dyn World) -> Result<(Script, Options), Error> {
    let mut lines = Lines::default();
    compiled(input, world, &mut lines).map_err(|fault| fault.located(input.source, &lines))
}

fn compiled(input: &Input<'_>, world: &dyn World, lines: &mut Lines) -> Checked<(Script, Options)> {
    if input.source.len() > LONGEST {
        let message = "source is longer than 16 MiB";
        return Err(Fault::new(Tag::Syntax, Span::default(), message));
    }
    let mut names = Known {
        world,
        types: Types::default(),
    };
    let lexer = Lexer::new(input.source, &input.macros, input.options.clone());
    let mut parser = Parser::new(lexer, input.specifier, &mut names);
    let program = parser.program();
    *lines = std::mem::take(&mut parser.lexer.lines);
    let program = program?;
    let lexer = parser.lexer;
    refuse_unused(input, &lexer)?;
    let options = lexer.options.clone();
    if program.items.is_empty() && !options.flag("empty") {
        let message = "empty D program translation unit";
        return Err(Fault::new(Tag::Empty, Span::default(), message));
    }
    let has_target = input.macros.variable("target").is_some_and(|pid| pid != 0);
    let script = Checker::new(world, &options, has_target, names.types).program(program)?;
    Ok((script, options))
}

/// Arguments beyond the last one that the script names are a mistake, unless it asked for defaults.
fn refuse_unused(input: &Input<'_>, lexer: &Lexer<'_>) -> Checked<()> {
    let Some(index) = lexer.used.last_unused(input.macros.arguments.len()) else {
        return Ok(());
    };
    if lexer.options.flag("defaultargs") {
        return Ok(());
    }
    let argument = input.macros.arguments[index];
    let message = format!("extraneous argument '{argument}' (${index} is not referenced)");
    let end = input.source.len() as u32;
    Err(Fault::new(
        Tag::MacroUnused,
        Span { start: end, end },
        message,
    ))
}

/// The type names that the language and the world bring.
struct Known<'w> {
    world: &'w dyn World,
    types: Types,
}

impl TypeNames for Known<'_> {
    fn is_type(&mut self, name: &str) -> bool {
        crate::check::type_of_name(&mut self.types, name).is_some()
            || self
                .world
                .type_named(None, None, name, &mut self.types)
                .is_some()
    }
}
