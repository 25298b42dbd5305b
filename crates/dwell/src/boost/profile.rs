//! What a recording says of a program's hot code.
use anyhow::Context;
use dwell_analysis::names::StackRef;
use dwell_analysis::{Analysis, State};
use dwell_booster::{Origin, Place, Profile, ProfiledModule};
use dwell_elf::ElfFile;
use dwell_recording::rows::{FrameRow, StackRow};
use std::collections::HashMap;
use std::path::Path;

/// Time on processors of a recording by place in the program's files. Threads within the kernel, and what waits,
/// tell nothing of code; so they are left out.
pub fn profile(path: &Path) -> anyhow::Result<Profile> {
    let tables =
        crate::report::load(path).with_context(|| format!("reading {}", path.display()))?;
    let analysis = Analysis::of(&tables);
    let frames: HashMap<u32, &FrameRow> = tables.frames.iter().map(|f| (f.frame, f)).collect();
    let mut reader = Reader::default();
    let on_processor = |state| matches!(state, State::Running | State::Spinning);
    for entry in analysis
        .profile
        .entries
        .iter()
        .filter(|e| on_processor(e.state))
    {
        let StackRef::Taken(stack) = entry.stack else {
            continue;
        };
        let stack: Option<&StackRow> = tables.stacks.get(stack as usize);
        let innermost = stack.iter().flat_map(|s| s.frames.iter().rev());
        let mut innermost = innermost.map(|id| frames.get(id).copied());
        let place = innermost.next().flatten().and_then(|f| reader.place(f));
        let Some(place) = place else { continue };
        let time = reader.profile.samples.entry(place).or_default();
        *time = time.saturating_add(entry.weight_ns);
        let caller = innermost.next().flatten().and_then(|f| reader.place(f));
        if let Some(caller) = caller {
            let time = reader.profile.calls.entry((caller, place)).or_default();
            *time = time.saturating_add(entry.weight_ns);
        }
    }
    anyhow::ensure!(
        !reader.profile.samples.is_empty(),
        "{} has no time on processors in files: record the program while it works",
        path.display()
    );
    Ok(reader.profile)
}

/// Turns frames into places.
#[derive(Default)]
struct Reader {
    profile: Profile,
    /// By path and build id: what the file is.
    files: HashMap<(String, String), File>,
}

enum File {
    /// A stock file: its index.
    Stock(usize),
    /// A merged one, and the indices of what it was made of.
    Merged(Origin, Vec<usize>),
}

impl Reader {
    fn place(&mut self, frame: &FrameRow) -> Option<Place> {
        if frame.kind != "user" || frame.build_id.is_empty() {
            return None;
        }
        let key = (frame.module.clone(), frame.build_id.clone());
        if !self.files.contains_key(&key) {
            let file = self.file(frame);
            self.files.insert(key.clone(), file);
        }
        match &self.files[&key] {
            &File::Stock(module) => Some(Place {
                module,
                address: frame.address,
            }),
            File::Merged(origin, modules) => {
                let (module, address) = origin.place(frame.address)?;
                Some(Place {
                    module: modules[module],
                    address,
                })
            }
        }
    }

    fn file(&mut self, frame: &FrameRow) -> File {
        let Some(origin) = origin(frame) else {
            return File::Stock(self.module(&frame.module, &frame.build_id));
        };
        let modules = origin.modules.iter();
        let modules = modules.map(|m| self.module(&m.path, &m.build_id)).collect();
        File::Merged(origin, modules)
    }

    fn module(&mut self, path: &str, build_id: &str) -> usize {
        let module = ProfiledModule {
            path: path.to_owned(),
            build_id: bytes_of(build_id),
        };
        let modules = &mut self.profile.modules;
        let known = modules.iter().position(|m| *m == module);
        known.unwrap_or_else(|| {
            modules.push(module);
            modules.len() - 1
        })
    }
}

/// What a merged file was made of, if the frame's file is one and still there.
fn origin(frame: &FrameRow) -> Option<Origin> {
    let file = std::fs::read(&frame.module).ok()?;
    let elf = ElfFile::parse(&file).ok()?;
    (elf.build_id() == Some(&bytes_of(&frame.build_id)[..])).then_some(())?;
    Origin::of(&file)
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map_while(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_are_read() {
        assert_eq!(bytes_of("00ff1a"), [0, 255, 26]);
        assert_eq!(bytes_of("zz"), [0; 0]);
    }
}
