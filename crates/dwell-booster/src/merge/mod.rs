//! Making the merged file.
mod arrays;
mod dynamic;
mod eh_frame;
mod entry;
mod exports;
mod headers;
mod identity;
mod image;
mod loader;
mod plugins;
mod relocations;
mod sections;
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
use crate::selection::select;
use crate::values::Values;
use crate::{Inputs, Options, Refusal, StandIn};
use arrays::Arrays;
pub use identity::is_merged;
use image::Image;
use relocations::Relocations;
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
}

/// Everything the phases have found out, for the writers.
struct Merge<'a, 'data> {
    closure: &'a Closure<'data>,
    layout: &'a Layout,
    soname: String,
    stand_in: Option<&'a StandIn>,
}

/// Makes the merged file of a program, examines it, and gives it out if nothing is wrong.
pub fn build(inputs: &Inputs, options: &Options) -> Result<Built, Refusal> {
    let closure = Closure::of(inputs)?;
    let verdicts = select(&closure, options)?;
    let program = &closure.modules[0];
    let unsupported = |why| Refusal::unsupported(&program.path, why);
    let layout = Layout::of(&closure, &verdicts).map_err(unsupported)?;
    let mut values = Values::of(&closure, &layout)?;
    let merge = Merge {
        closure: &closure,
        layout: &layout,
        soname: format!("{}.boosted", program.name),
        stand_in: options.stand_in.as_ref(),
    };
    let arrays = Arrays::of(&closure, &layout, &values);
    let all_exports = exports::exports(&closure, &layout);
    let versions = merge.versions(&values, &all_exports)?;
    let writable = Writable::new(&merge, &arrays, &mut values);
    let imports = values.imports.clone();
    let symbols = SymbolTables::new(&imports, all_exports, &versions);
    let left = Relocations::of(&values, &layout, &symbols, merge.packs_relocations());

    let mut image = Image::of(&closure, &layout);
    image.copy_variables(&values, &closure, &layout);
    image.append(image::R | image::W, &writable.bytes);
    image.append(image::R | image::X, &writable.code);
    for &(place, word) in &left.words {
        image.put_word(place, word);
    }
    let tables = Tables::new(&merge, &image, &symbols, &versions, &left)?;
    let call_frames = tables.call_frames;
    let symbolic = left.rela.len() - left.relative;
    tables.finish(&merge, &mut image, &writable, &arrays);
    verify::verify(&merge, &image, &values, &symbols)?;
    let names = |merged: bool| {
        let all = closure.modules.iter().enumerate().skip(1);
        let of_kind = all.filter(|(i, _)| layout.bases[*i].is_some() == merged);
        of_kind.map(|(_, m)| m.name.clone()).collect()
    };
    Ok(Built {
        merged: names(true),
        kept: names(false),
        exports: symbols.exports.len(),
        symbolic,
        relative: left.relative + left.packed,
        call_frames,
        bytes: image.bytes,
    })
}
