//! Making the merged file.
mod arrays;
mod choices;
mod decoded;
mod direct;
mod dynamic;
mod eh_frame;
mod entry;
mod exports;
mod headers;
mod hot;
mod identity;
mod image;
mod inside;
mod loader;
mod plugins;
mod registered;
mod relocations;
mod sections;
mod settled;
mod stand_in;
mod strings;
mod symbols;
mod symtab;
mod tables;
mod verify;
mod versions;
mod writable;

use crate::closure::Closure;
use crate::layout::Layout;
use crate::selection::{LIBC, select};
use crate::values::Values;
use crate::{FileState, Inputs, Options, Refusal, StandIn};
use arrays::Arrays;
pub use choices::{Choices, Question, question};
use choices::{Chosen, Guard};
use direct::Direct;
pub use direct::{Count, DirectCalls};
use hot::Hot;
pub use hot::{HotReport, Obstacle, Share};
pub use identity::{Origin, OriginModule, is_merged};
use image::Image;
use inside::Inside;
pub use inside::{Answer, Processor};
use relocations::Relocations;
use std::collections::HashMap;
use std::ops::Range;
use symbols::SymbolTables;
use tables::Tables;
use writable::Writable;

/// A merged file, and what it spares the loader.
#[derive(Clone, Debug)]
pub struct Built {
    /// The file.
    pub bytes: Vec<u8>,
    /// Names of the libraries that are in it, in the loader's order.
    pub merged: Vec<String>,
    /// Names of the libraries that it still loads.
    pub kept: Vec<String>,
    /// Symbols that others can find in it.
    pub exports: usize,
    /// Relocations left for the loader that name a symbol.
    pub symbolic: usize,
    /// Relocations left for the loader that only add the address it is loaded at.
    pub relative: usize,
    /// Entries of call frame information that can be found.
    pub call_frames: usize,
    /// How many functions that are chosen at start (IFUNC) were bound, under a guard.
    pub bound: usize,
    /// How many of the loader's questions to the processor are answered from memory, and how many there are; none when
    /// the loader is not in the file.
    pub remembered: Option<(usize, usize)>,
    /// Whether code lies on a huge page of memory where it lies on one of the file.
    pub by_huge_pages: bool,
    /// What became of calls between modules; none when they were not asked to be direct.
    pub direct: Option<DirectCalls>,
    /// What became of hot functions; none when there was no profile.
    pub hot: Option<HotReport>,
}

/// Everything the phases have found out, for the writers.
struct Merge<'a, 'data> {
    closure: &'a Closure<'data>,
    layout: &'a Layout,
    soname: String,
    stand_in: Option<&'a StandIn>,
    /// The state of each file, when the kernel is to start the merged one instead of the stock one.
    registered: Option<&'a HashMap<String, FileState>>,
    guard: Guard<'a>,
    processor: Option<&'a Processor>,
    /// Whether neighbouring ranges that nobody writes to are mapped as one.
    fuse: bool,
}

/// A file that is not yet examined, with what it was made of.
struct Made<'a> {
    image: Image,
    values: Values,
    symbols: SymbolTables<'a>,
    direct: Direct,
    hot: Hot,
    left: Relocations,
    chosen: Chosen,
    inside: Option<Inside>,
    /// What is written to at each start besides relocations' places, image addresses.
    written: [Range<u64>; 2],
    call_frames: usize,
}

/// Makes the merged file of a program, examines it, and gives it out if nothing is wrong.
pub fn build(inputs: &Inputs, options: &Options) -> Result<Built, Refusal> {
    let closure = Closure::of(inputs)?;
    let verdicts = select(&closure, options)?;
    let program = &closure.modules[0];
    let unsupported = |why| Refusal::unsupported(&program.path, why);
    let layout = Layout::of(&closure, &verdicts, options).map_err(unsupported)?;
    let choices = options.choices.as_ref().filter(|_| choices::binds(options));
    let guard = choices.map_or(Guard::None, |choices| {
        let hidden = options.stand_in.as_ref().map(|s| s.stock.as_bytes());
        Guard::Compare(choices, hidden.unwrap_or(program.path.as_bytes()))
    });
    let merge = Merge::new(&closure, &layout, options, guard);
    let made = merge.make(options)?;
    verify::verify(&merge, &made)?;
    let names = |merged: bool| {
        let all = closure.modules.iter().enumerate().skip(1);
        let of_kind = all.filter(|(i, _)| layout.bases[*i].is_some() == merged);
        of_kind.map(|(_, m)| m.name.clone()).collect()
    };
    Ok(Built {
        merged: names(true),
        kept: names(false),
        exports: made.symbols.exports.iter().filter(|e| !e.copy).count(),
        symbolic: made.left.rela.len() - made.left.relative,
        relative: made.left.relative + made.left.packed,
        call_frames: made.call_frames,
        remembered: made.inside.as_ref().map(|i| (i.remembered(), i.questions)),
        bound: made.chosen.resolvers.len(),
        by_huge_pages: layout.by_huge_pages,
        direct: options.direct.then_some(made.direct.report),
        hot: options.profile.is_some().then_some(made.hot.report),
        bytes: made.image.bytes,
    })
}

/// The name that plugins' libraries need. The loader takes a program of the C library's name for it.
fn soname(closure: &Closure<'_>, layout: &Layout) -> String {
    let mut merged = layout.merged().map(|(i, _)| &closure.modules[i]);
    match merged.any(|m| m.name == LIBC) {
        true => LIBC.into(),
        false => format!("{}.boosted", closure.modules[0].name),
    }
}

impl<'a, 'data> Merge<'a, 'data> {
    fn new(
        closure: &'a Closure<'data>,
        layout: &'a Layout,
        options: &'a Options,
        guard: Guard<'a>,
    ) -> Self {
        Merge {
            closure,
            layout,
            soname: soname(closure, layout),
            // What only asks is not for use, and gives way to nothing.
            stand_in: options
                .stand_in
                .as_ref()
                .filter(|_| !matches!(guard, Guard::Ask)),
            registered: options
                .registered
                .as_ref()
                .filter(|_| !matches!(guard, Guard::Ask)),
            guard,
            processor: options.processor.as_ref(),
            fuse: options.fixed.is_some(),
        }
    }

    fn make(&self, options: &Options) -> Result<Made<'a>, Refusal> {
        let (closure, layout) = (self.closure, self.layout);
        let mut values = Values::of(closure, layout)?;
        let mut chosen = Chosen::bind(&mut values, layout, self.guard);
        let arrays = Arrays::of(closure, layout, &values);
        let all_exports = exports::exports(closure, layout);
        let writable = Writable::new(self, &arrays, &mut chosen, &mut values)?;
        let versions = self.versions(&values, &all_exports)?;

        let mut image = Image::of(closure, layout);
        image.copy_variables(&values, closure, layout);
        if let Some(emptied) = &writable.emptied {
            image.put(
                emptied.start,
                &vec![0; (emptied.end - emptied.start) as usize],
            );
        }
        if !writable.bytes.is_empty() {
            image.append(image::R | image::W, &writable.bytes);
        }
        image.append(image::R | image::X, &writable.code);
        let direct = match options.direct {
            true => Direct::of(closure, layout, &values, &image)?,
            false => Direct::default(),
        };
        direct.apply(&mut image);
        if let Some(inside) = &writable.inside {
            inside.apply(&mut image);
        }
        let hot = match &options.profile {
            Some(profile) => Hot::of(self, &image, &direct, profile)?,
            None => Hot::default(),
        };
        hot.apply(&mut image);
        let named = hot.named(&all_exports);
        let exported = (all_exports, named);
        let symbols = SymbolTables::new(values.imports.clone(), exported, &versions);
        let left = Relocations::of(&values, layout, &symbols, self.packs_relocations());
        for &(place, word) in &left.words {
            image.put_word(place, word);
        }
        let tables = Tables::new(
            self,
            &image,
            (&symbols, &versions),
            &writable,
            (&left, &hot),
        )?;
        let call_frames = tables.call_frames;
        tables.finish(self, &mut image, (&writable, &hot), &arrays);
        Ok(Made {
            image,
            values,
            symbols,
            direct,
            hot,
            left,
            chosen,
            inside: writable.inside,
            written: writable.written,
            call_frames,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LoaderCache, collect};

    /// A real program: bash, with the library of terminals.
    fn inputs() -> Inputs {
        let read = |path: &str| std::fs::read(path).ok();
        let cache = LoaderCache::parse(&read("/etc/ld.so.cache").unwrap_or_default());
        let bash = read("/usr/bin/bash").expect("bash is installed");
        collect("/usr/bin/bash", bash, &cache, read)
    }

    /// Bash as it is merged with these options, verified; an error where its libraries cannot be merged so.
    fn with_merged(
        options: &Options,
        check: impl FnOnce(&Merge<'_, '_>, Made<'_>),
    ) -> Result<(), Refusal> {
        let inputs = inputs();
        let closure = Closure::of(&inputs).expect("bash can be read");
        let verdicts = select(&closure, options)?;
        let layout = Layout::of(&closure, &verdicts, options).expect("bash can be laid out");
        let merge = Merge::new(&closure, &layout, options, Guard::None);
        let made = merge.make(options).expect("bash can be merged");
        verify::verify(&merge, &made).expect("what is made is right");
        check(&merge, made);
        Ok(())
    }

    /// Whatever is done to a changed instruction is found: each of its bytes counts.
    #[test]
    fn sabotaged_calls_are_found() {
        let options = Options {
            direct: true,
            ..Options::default()
        };
        let checked = with_merged(&options, |merge, mut made| {
            let sites: Vec<direct::Site> = made.direct.sites.values().flatten().cloned().collect();
            assert!(sites.len() > 100, "{}", sites.len());
            for (number, site) in sites.iter().enumerate().step_by(sites.len() / 40) {
                let at = (site.at - made.image.start) as usize + number % site.bytes.len();
                made.image.bytes[at] ^= 4;
                let found = verify::verify(merge, &made);
                assert!(
                    matches!(found, Err(Refusal::Check(_))),
                    "{:#x}: {:x?}, byte {}",
                    site.at,
                    site.bytes,
                    number % site.bytes.len()
                );
                made.image.bytes[at] ^= 4;
            }
            // A change that nobody noted is found by the comparison of all other bytes.
            let (&function, _) = made.direct.sites.first_key_value().expect("a site");
            made.direct.sites.remove(&function);
            assert!(verify::verify(merge, &made).is_err());
        });
        checked.expect("bash can be merged");
    }

    /// What is written to at each start must not have been mapped with the code.
    #[test]
    fn what_is_written_must_be_writable() {
        let options = Options {
            fixed: Some(0x5555_5555_4000),
            ..Options::default()
        };
        let checked = with_merged(&options, |merge, mut made| {
            let lists = made.written[1].clone();
            made.written[1] = lists.start..lists.end + made.image.bytes.len() as u64;
            let found = verify::verify(merge, &made);
            assert!(matches!(found, Err(Refusal::Check(_))), "{found:?}");
        });
        checked.expect("bash can be merged");
    }

    /// Whatever is done to the loader's changed instructions is found.
    #[test]
    fn a_sabotaged_loader_is_found() {
        let options = Options {
            direct: true,
            libc: true,
            fixed: Some(0x5555_5555_4000),
            processor: Some(Processor::ask(|leaf, _| [leaf | 0x10; 4], 7)),
            ..Options::default()
        };
        let checked = with_merged(&options, |merge, mut made| {
            let inside = made.inside.clone().expect("a loader");
            assert!(inside.remembered() > 20, "{}", inside.remembered());
            let places = inside
                .changed()
                .map(|range| range.start)
                .chain(inside.stubs());
            for (number, place) in places.enumerate().step_by(5) {
                let byte = (place - made.image.start) as usize + number % 5;
                made.image.bytes[byte] ^= 4;
                let found = verify::verify(merge, &made);
                assert!(matches!(found, Err(Refusal::Check(_))), "{place:#x}");
                made.image.bytes[byte] ^= 4;
            }
        });
        if checked.is_err() {
            println!("not with this C library");
        }
    }
}
