//! A script's text to its checked form.

use crate::ast::Program;
use crate::check::Checker;
use crate::error::{Checked, Error, Fault};
use crate::lex::Lexer;
use crate::library;
use crate::lines::Lines;
use crate::macros::Macros;
use crate::options::Options;
use crate::parse::{Parser, Specifier, TypeNames};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::Script;
use crate::types::Types;
use crate::world::World;
use std::collections::HashSet;

/// The longest source, in bytes: places in it are 32 bits, and no script comes near.
const LONGEST: usize = 16 << 20;

/// A script and what was said about it on the command line.
#[derive(Debug, Clone, Default)]
pub struct Input<'a> {
    /// The text; after the preprocessor, if it was asked for. What need not be UTF-8 is read with
    /// [`crate::octets::text_of`].
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
    lines: Vec<Lines>,
}

impl Compiled {
    /// The error that a clause's probe is none, and the number of the part that it is in; `inputs` are those that the
    /// script was made of.
    pub fn no_such_probe(
        &self,
        inputs: &[Input<'_>],
        clause: usize,
        message: String,
        nearest: Option<String>,
    ) -> (usize, Error) {
        let part = self.ends.partition_point(|end| *end <= clause);
        let span = self.script.clauses[clause].probe.span;
        let fault = Fault {
            suggestion: nearest,
            ..*Fault::new(Tag::PdescZero, span, message)
        };
        let located = Box::new(fault).located(inputs[part].source, &self.lines[part]);
        (part, located)
    }
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
        typedefs: HashSet::new(),
    };
    let library = library_for(inputs, &mut names)?;
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
    for (word, program) in library {
        let checked = checker.program(program);
        checked.map_err(|fault| not_to_be_had(inputs, word, &fault))?;
    }
    let (mut ends, mut all_lines) = (Vec::new(), Vec::new());
    for (at, (program, lines)) in parts.into_iter().enumerate() {
        match checker.program(program) {
            Ok(end) => ends.push(end),
            Err(fault) => return Err((at, fault.located(inputs[at].source, &lines))),
        }
        all_lines.push(lines);
    }
    let script = checker.finish();
    Ok(Compiled {
        script,
        options,
        ends,
        lines: all_lines,
    })
}

/// What of D's own library the parts name, and by which word.
fn library_for(
    inputs: &[Input<'_>],
    names: &mut Known<'_>,
) -> Result<Vec<(&'static str, Program)>, (usize, Error)> {
    let sources: Vec<&str> = inputs.iter().map(|input| input.source).collect();
    let pieces = library::wanted(&sources).into_iter();
    let programs = pieces.map(|(word, piece)| {
        let input = Input {
            source: piece.text,
            ..Input::default()
        };
        let program = parsed(
            &input,
            &mut Options::default(),
            names,
            &mut Lines::default(),
        );
        let program = program.map_err(|fault| not_to_be_had(inputs, word, &fault))?;
        Ok((word, program))
    });
    programs.collect()
}

/// The error for a word of the library that cannot be defined here, where the parts have it first.
fn not_to_be_had(inputs: &[Input<'_>], word: &str, fault: &Fault) -> (usize, Error) {
    let found = inputs.iter().map(|input| input.source.find(word));
    let (part, at) = found
        .enumerate()
        .find_map(|(part, at)| Some((part, at?)))
        .unwrap_or_default();
    let span = Span {
        start: at as u32,
        end: (at + word.len()) as u32,
    };
    let message = format!(
        "{word} needs the kernel's types (/sys/kernel/btf/vmlinux): {}",
        fault.message
    );
    let fault = Fault::new(fault.tag, span, message);
    (part, fault.located(inputs[part].source, &Lines::default()))
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
    let (lexer, typedefs) = (parser.lexer, parser.typedefs);
    names.typedefs.extend(typedefs);
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
    /// Those of the parts that were parsed.
    typedefs: HashSet<Box<str>>,
}

impl TypeNames for Known<'_> {
    fn is_type(&mut self, name: &str) -> bool {
        self.typedefs.contains(name)
            || crate::check::type_of_name(&mut self.types, name).is_some()
            || self
                .world
                .type_named(None, None, name, &mut self.types)
                .is_some()
    }
}
