//! The bytes of the merged file: what is at image address a stands at a - start in the file.
use crate::PAGE;
use crate::closure::Closure;
use crate::layout::Layout;
use crate::values::{Values, copy_source};

/// A loaded range of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// First image address.
    pub at: u64,
    /// Bytes in the file and in memory.
    pub file_size: u64,
    pub mem_size: u64,
    /// `PF_R` and so on.
    pub flags: u32,
    pub align: u64,
    /// Index of the module it comes from; none for what was made here.
    pub module: Option<usize>,
}

pub(crate) const R: u32 = 4;
pub(crate) const W: u32 = 2;
pub(crate) const X: u32 = 1;

/// The file in the making.
#[derive(Debug)]
pub(crate) struct Image {
    pub start: u64,
    pub bytes: Vec<u8>,
    pub loads: Vec<Load>,
}

impl Image {
    /// All modules at their bases, as their files have them.
    pub(crate) fn of(closure: &Closure<'_>, layout: &Layout) -> Self {
        let mut image = Image {
            start: layout.start,
            bytes: vec![0; (layout.end - layout.start) as usize],
            loads: Vec::new(),
        };
        for (index, base) in layout.placed() {
            let module = &closure.modules[index];
            for s in &module.segments {
                let flag = |on: bool, flag: u32| if on { flag } else { 0 };
                image.loads.push(Load {
                    at: s.stated_address + base,
                    file_size: s.file_size,
                    mem_size: s.mem_size,
                    flags: flag(s.readable, R) | flag(s.writable, W) | flag(s.executable, X),
                    align: module.align,
                    module: Some(index),
                });
                let len = s.file_size as usize;
                if let Some(bytes) = module.elf.bytes_at(s.stated_address, len) {
                    image.put(s.stated_address + base, bytes);
                }
            }
        }
        image
    }

    /// Appends a loaded range at the next page.
    pub(crate) fn append(&mut self, flags: u32, bytes: &[u8]) {
        self.append_aligned(flags, bytes, PAGE);
    }

    /// Appends a loaded range at the next multiple of `align` bytes, a page or more.
    pub(crate) fn append_aligned(&mut self, flags: u32, bytes: &[u8], align: u64) {
        let at = self.end().next_multiple_of(align);
        self.bytes.resize((at - self.start) as usize, 0);
        self.bytes.extend_from_slice(bytes);
        self.loads.push(Load {
            at,
            file_size: bytes.len() as u64,
            mem_size: bytes.len() as u64,
            flags,
            align,
            module: None,
        });
    }

    /// The first page behind all there is.
    pub(crate) fn end(&self) -> u64 {
        self.start + (self.bytes.len() as u64).next_multiple_of(PAGE)
    }

    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) {
        let from = (at - self.start) as usize;
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn bytes_at(&self, at: u64, len: u64) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(self.start)?).ok()?;
        self.bytes
            .get(from..from.checked_add(usize::try_from(len).ok()?)?)
    }

    /// Writes a word; zeroes behind a segment's bytes become bytes of the file where needed.
    pub(crate) fn put_word(&mut self, at: u64, word: u64) {
        if word != 0 {
            self.cover(at, 8);
        }
        self.put(at, &word.to_le_bytes());
    }

    /// Copies what the program has copies of.
    pub(crate) fn copy_variables(
        &mut self,
        values: &Values,
        closure: &Closure<'_>,
        layout: &Layout,
    ) {
        for copy in &values.copies {
            let from = copy_source(copy, closure, layout);
            if let Some(bytes) = self.bytes_at(from, copy.len).map(<[u8]>::to_vec) {
                self.cover(copy.to, copy.len);
                self.put(copy.to, &bytes);
            }
        }
    }

    fn cover(&mut self, at: u64, len: u64) {
        let holds = |l: &&mut Load| l.at <= at && at + len <= l.at + l.mem_size;
        if let Some(load) = self.loads.iter_mut().find(holds) {
            load.file_size = load.file_size.max(at + len - load.at);
        }
    }
}
