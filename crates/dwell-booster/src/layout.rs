//! Where everything goes: modules keep their inner layout, one behind the other.
use crate::Options;
use crate::closure::Closure;
use crate::selection::{LOADER, Verdict};
use crate::{HUGE, PAGE};

/// Addresses of the merged image. The program's stay what they are; a library's grow by its base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// First page of the image: 0, or where a program at fixed addresses begins.
    pub start: u64,
    /// What is added to a module's stated addresses; none for those that are not merged.
    pub bases: Vec<Option<u64>>,
    /// The loader, when it is in the file without being part of the program: index and base.
    pub loader: Option<(usize, u64)>,
    /// First page behind all modules, where the tables made for the whole go.
    pub end: u64,
    /// Whether the image is loaded where it says, so that addresses are final.
    pub fixed: bool,
    /// Whether code is to lie on a huge page of memory where it lies on one of the file.
    pub by_huge_pages: bool,
    pub tls: TlsLayout,
}

/// The thread-local blocks as one. Offsets are from the beginning of the block; the thread pointer is
/// its end, and the program's part comes last, so that distances in its code stay right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsLayout {
    pub offsets: Vec<Option<u64>>,
    /// A multiple of `align`; 0 when no module has thread-local variables.
    pub size: u64,
    pub align: u64,
    /// Bytes that come from the file.
    pub file_size: u64,
    /// Image address of these bytes where one module has them all; none when they are put together from several.
    pub in_place: Option<u64>,
}

/// Loaded ranges of all modules: 12 program headers are for what is added.
const MAX_LOADS: usize = dwell_elf::MAX_SEGMENTS - 12;
/// Most zeroed memory, bytes: the file holds it, since modules behind it follow in the file, too.
const MAX_ZEROES: u64 = 256 << 20;
/// Last address at which a program may begin: processes have 128 TiB.
const MAX_ADDRESS: u64 = (1 << 47) - (4 << 30);
/// Code reaches all of the image by 32-bit distances.
const MAX_IMAGE: u64 = 1 << 31;

impl Layout {
    /// A program that has an address of its own keeps it.
    pub(crate) fn of(
        closure: &Closure<'_>,
        verdicts: &[Verdict],
        options: &Options,
    ) -> Result<Self, &'static str> {
        let program = &closure.modules[0];
        let by_huge_pages = by_huge_pages(closure, verdicts, options);
        let least = if by_huge_pages { HUGE } else { PAGE };
        let aligned = closure
            .modules
            .iter()
            .map(|m| m.align)
            .fold(least, u64::max);
        let fixed = options.fixed.filter(|_| !program.is_fixed());
        let own = fixed.map_or(0, |at| at.next_multiple_of(aligned));
        if own > MAX_ADDRESS {
            return Err("the address that it should have is beyond a program's memory");
        }
        let start = program.start() + own;
        let mut end = program.end() + own;
        let mut bases = vec![Some(own)];
        for (module, verdict) in closure.modules.iter().zip(verdicts).skip(1) {
            if !verdict.is_merged() {
                bases.push(None);
                continue;
            }
            let first = module.start();
            let base = (end.max(first) - first).next_multiple_of(module.align);
            end = base + module.end();
            if end - start > MAX_IMAGE {
                return Err("all of it together is larger than 2 GiB");
            }
            bases.push(Some(base));
        }
        let merged = closure.modules.iter().zip(&bases);
        let merged = merged.filter(|(_, base)| base.is_some());
        if merged.map(|(m, _)| m.segments.len()).sum::<usize>() > MAX_LOADS {
            return Err("its program headers would take more than 64 KiB; merge fewer libraries");
        }
        let mut loader = None;
        if options.processor.is_some() {
            let of_name = closure.modules.iter().position(|m| m.name == LOADER);
            let index = of_name.ok_or("its loader is not among its libraries")?;
            let module = &closure.modules[index];
            if fixed.is_none() && !program.is_fixed() || !options.libc {
                return Err("the loader goes with the C library, to one address");
            }
            let base = end.next_multiple_of(module.align);
            end = base + module.end();
            loader = Some((index, base));
        }
        let files = closure.modules.iter().map(|m| m.elf.data().len() as u64);
        if end - start > files.sum::<u64>() + MAX_ZEROES {
            return Err(
                "it has more than 256 MiB of zeroed memory, which would be part of the file",
            );
        }
        Ok(Layout {
            start,
            tls: tls_layout(closure, &bases),
            bases,
            loader,
            end,
            fixed: fixed.is_some() || program.is_fixed(),
            by_huge_pages,
        })
    }

    /// The merged modules with their bases, the program first.
    pub(crate) fn merged(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + '_ {
        let bases = self.bases.iter().enumerate();
        bases.filter_map(|(index, base)| Some((index, (*base)?)))
    }

    /// The same and the loader, if it is in the file: all whose bytes are.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.merged().chain(self.loader)
    }

    /// What is added to the program's own stated addresses.
    pub(crate) fn own(&self) -> u64 {
        self.bases[0].unwrap_or_default()
    }

    /// Where the thread-local block's initial image is.
    pub(crate) fn tls_image(&self) -> u64 {
        self.tls.in_place.unwrap_or(self.end)
    }
}

/// Whether code is to lie on a huge page of memory where it lies on one of the file: that of copies of hot functions, and,
/// where the address is ours to choose, whatever is long enough.
fn by_huge_pages(closure: &Closure<'_>, verdicts: &[Verdict], options: &Options) -> bool {
    let merged = closure.modules.iter().zip(verdicts);
    let merged = merged.filter(|(_, verdict)| verdict.is_merged());
    let mut code = merged.flat_map(|(m, _)| m.segments.iter().filter(|s| s.executable));
    options.profile.is_some() || options.fixed.is_some() && code.any(|s| s.mem_size >= HUGE)
}

fn tls_layout(closure: &Closure<'_>, bases: &[Option<u64>]) -> TlsLayout {
    let mut tls = TlsLayout {
        offsets: vec![None; bases.len()],
        align: 1,
        ..TlsLayout::default()
    };
    let merged = |index: &usize| bases[*index].is_some();
    let blocks = (0..bases.len())
        .filter(merged)
        .filter_map(|i| Some((i, closure.modules[i].tls?)));
    let mut blocks: Vec<_> = blocks.collect();
    // What is in the file comes first: if it is one module's, it can stay where it is.
    blocks.sort_by_key(|(_, block)| block.file_size == 0);
    let mut end = 0u64;
    for &(index, block) in blocks.iter().filter(|(index, _)| *index != 0) {
        let offset = congruent(end, block.stated, block.align);
        tls.offsets[index] = Some(offset);
        tls.align = tls.align.max(block.align);
        end = offset + block.mem_size;
        if block.file_size > 0 {
            tls.file_size = offset + block.file_size;
        }
    }
    let program = blocks.iter().find(|(index, _)| *index == 0);
    if let Some((_, block)) = program {
        tls.align = tls.align.max(block.align);
        // The distance from the block's begin to the thread pointer, as the linker computed it.
        let reach = (block.stated + block.mem_size).next_multiple_of(block.align) - block.stated;
        tls.size = (end + reach).next_multiple_of(tls.align);
        tls.offsets[0] = Some(tls.size - reach);
        if block.file_size > 0 {
            tls.file_size = tls.size - reach + block.file_size;
        }
    } else {
        tls.size = end.next_multiple_of(tls.align);
    }
    let mut in_file = blocks.iter().filter(|(_, block)| block.file_size > 0);
    if let (Some(&(index, block)), None) = (in_file.next(), in_file.next())
        && tls.offsets[index] == Some(0)
        && block.stated % tls.align == 0
    {
        tls.in_place = bases[index].map(|base| block.stated + base);
    }
    tls
}

/// The first number from `least` on that is as far from a multiple of `align` as `stated` is.
fn congruent(least: u64, stated: u64, align: u64) -> u64 {
    let rest = stated % align;
    let candidate = least - least % align + rest;
    if candidate >= least {
        candidate
    } else {
        candidate + align
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congruent_numbers() {
        assert_eq!(congruent(0, 0, 16), 0);
        assert_eq!(congruent(1, 0x20, 16), 16);
        assert_eq!(congruent(17, 0x28, 16), 24);
        assert_eq!(congruent(25, 0x28, 16), 40);
    }
}
