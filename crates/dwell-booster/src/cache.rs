//! The loader's cache of libraries (`/etc/ld.so.cache`).
use crate::u32_at;
use std::collections::HashMap;

/// Library names and where the cache says they are.
#[derive(Debug, Default)]
pub struct LoaderCache {
    paths: HashMap<String, String>,
}

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;
/// Flags of a 64-bit x86-64 library for glibc 2.
const X86_64: u32 = 0x0303;

impl LoaderCache {
    /// Reads the cache's bytes; what is damaged counts as absent, as in the loader.
    ///
    /// Entries for special processors (`glibc-hwcaps`) are left out, since they depend on the machine.
    pub fn parse(bytes: &[u8]) -> Self {
        // An old-format table may stand in front; the new one is aligned to 8 bytes.
        let start = (0..bytes.len().saturating_sub(MAGIC.len()))
            .step_by(8)
            .find(|&at| bytes[at..].starts_with(MAGIC));
        let Some(table) = start.map(|at| &bytes[at..]) else {
            return LoaderCache::default();
        };
        let count = u32_at(table, 20).unwrap_or(0) as usize;
        let entries = table.get(HEADER..).unwrap_or_default();
        let (entries, _) = entries.as_chunks::<ENTRY>();
        let mut paths = HashMap::new();
        for entry in entries.iter().take(count) {
            let word = |at| u32_at(entry, at).unwrap_or(0);
            let hwcap = u64::from(word(16)) | u64::from(word(20)) << 32;
            if word(0) != X86_64 || hwcap != 0 {
                continue;
            }
            let names = (string(table, word(4)), string(table, word(8)));
            if let (Some(name), Some(path)) = names {
                paths.entry(name).or_insert(path);
            }
        }
        LoaderCache { paths }
    }

    /// Where a library is.
    pub fn path(&self, name: &str) -> Option<&str> {
        self.paths.get(name).map(String::as_str)
    }
}

fn string(table: &[u8], at: u32) -> Option<String> {
    let bytes = table.get(at as usize..)?;
    let end = bytes.iter().take(4096).position(|&b| b == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}
