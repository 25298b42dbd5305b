//! A script's text to its checked form.

use crate::ast::Program;
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

/// A script of several parts, compiled.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The whole.
    pub script: Script,
    /// The options that it ends up with.
    pub options: Options,
    /// Of each part, the end of its clauses in the script's.
    pub ends: Vec<usize>,
}

/// Compiles a script: to its checked form, and the options that it ends up with.
///
/// Pure: what lies outside of the script is asked of `world`.
pub fn compile(input: &Input<'_>, world: &dyn World) -> Result<(Script, Options), Error> {
    match compile_all(std::slice::from_ref(input), world) {
        Ok(compiled) => Ok((compiled.script, compiled.options)),
        Err((_, error)) => Err(error),
    }
}

/// Compiles parts that are one script, with the variables and aggregations of all, such as several `-n` and `-s`. The
/// options of the first count, and pragmas of all add to them. An error comes with the number of its part.
pub fn compile_all(inputs: &[Input<'_>], world: &dyn World) -> Result<Compiled, (usize, Error)> {
    let mut options = inputs
        .first()
        .map(|i| i.options.clone())
        .unwrap_or_default();
    let mut names = Known {
        world,
        types: Types::default(),
    };
    let mut parts = Vec::new();
    for (at, input) in inputs.iter().enumerate() {
        let mut lines = Lines::default();
        match parsed(input, &mut options, &mut names, &mut lines) {
            Ok(program) => parts.push((program, lines)),
            Err(fault) => return Err((at, fault.located(input.source, &lines))),
        }
    }
    let has_target = inputs
        .iter()
        .any(|i| i.macros.variable("target").is_some_and(|pid| pid != 0));
    let mut checker = Checker::new(world, &options, has_target, names.types);
    let mut ends = Vec::new();
    for (at, (program, lines)) in parts.into_iter().enumerate() {
        match checker.program(program) {
            Ok(end) => ends.push(end),
            Err(fault) => return Err((at, fault.located(inputs[at].source, &lines))),
        }
    }
    let script = checker.finish();
    Ok(Compiled {
        script,
        options,
        ends,
    })
}

fn parsed(
    input: &Input<'_>,
    options: &mut Options,
    names: &mut Known<'_>,
    lines: &mut Lines,
) -> Checked<Program> {
    if input.source.len() > LONGEST {
        let message = "source is longer than 16 MiB";
        return Err(Fault::new(Tag::Syntax, Span::default(), message));
    }
    let lexer = Lexer::new(input.source, &input.macros, std::mem::take(options));
    let mut parser = Parser::new(lexer, input.specifier, names);
    let program = parser.program();
    *lines = std::mem::take(&mut parser.lexer.lines);
    let program = program?;
    let lexer = parser.lexer;
    refuse_unused(input, &lexer)?;
    *options = lexer.options;
    if program.items.is_empty() && !options.flag("empty") {
        let message = "empty D program translation unit";
        return Err(Fault::new(Tag::Empty, Span::default(), message));
    }
    Ok(program)
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
