//! Executable bytes of a process that nothing uses: between the end of a file's code and the end of its
//! last page.
use super::contexts::saved;
use super::entry_nap::forget_left_behind;
use super::space::{Mapping, Space};
use super::threads::Threads;
use super::{PATIENCE_TO_RESTORE, PatchError, Pause, while_stopped};
use dwell_elf::ElfFile;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

const PAGE: u64 = 4096;

/// Unused executable bytes, and what they are when nobody has written there.
#[derive(Clone, Debug)]
pub(super) struct Slack {
    pub start: u64,
    original: Vec<u8>,
}

impl Slack {
    /// The roomiest slack of the files that stay mapped for as long as the process lives: the program,
    /// its loader, the vdso. A library may be unmapped under a thread that stands there.
    pub fn find(space: &Space, mappings: &[Mapping]) -> Option<Slack> {
        let program =
            std::fs::metadata(format!("{}/exe", dwell_maps::folder(space.pid as u32))).ok();
        let program = program.map(|p| p.ino());
        let stays = |m: &&Mapping| {
            let name = m.path.rsplit('/').next().unwrap_or_default();
            m.path == "[vdso]"
                || m.inode != 0 && (Some(m.inode) == program || name.starts_with("ld-"))
        };
        let candidates = mappings.iter().filter(|m| m.executable && !m.writable);
        let found = candidates
            .filter(stays)
            .filter_map(|m| Slack::behind(space, m));
        found.max_by_key(Slack::len)
    }

    /// Bytes of room.
    pub fn len(&self) -> usize {
        self.original.len()
    }

    /// Where it is.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.original.len() as u64
    }

    /// The slack behind the code of a mapped file.
    pub fn behind(space: &Space, mapping: &Mapping) -> Option<Slack> {
        let source = match mapping.path.as_str() {
            "[vdso]" => Source::Memory,
            _ => Source::File(space.open_mapped(mapping).ok()?),
        };
        let mut headers = vec![0; PAGE as usize];
        match &source {
            Source::Memory => space.read(mapping.start, &mut headers).ok()?,
            Source::File(file) => {
                let got = file.read_at(&mut headers, 0).ok()?;
                headers.truncate(got);
            }
        }
        let file = ElfFile::parse(&headers).ok()?;
        let bias = file.mapping_bias(mapping.start, mapping.file_offset)?;
        let code = file
            .segments()
            .filter(|s| s.executable && s.file_size == s.mem_size);
        let ends = code.map(|s| bias.wrapping_add(s.stated_end()));
        let start = ends
            .filter(|e| (mapping.start..mapping.end).contains(e))
            .max()?;
        let start = start.next_multiple_of(16);
        // No more than its page: what follows that is something else.
        let end = start.next_multiple_of(PAGE).min(mapping.end);
        let mut original = vec![0; end.checked_sub(start)? as usize];
        match source {
            // Nothing but zeroes follows its code, and nothing else tells.
            Source::Memory => {}
            Source::File(file) => {
                let offset = mapping.file_offset + (start - mapping.start);
                let mut got = 0;
                while let Ok(more @ 1..) = file.read_at(&mut original[got..], offset + got as u64) {
                    got += more;
                }
            }
        }
        Some(Slack { start, original })
    }

    /// Puts the original bytes back.
    pub fn restore(&self, space: &Space) -> Result<(), PatchError> {
        space.write(self.start, &self.original)
    }

    /// Makes sure that no thread runs what a dwell that was killed has left here. False when one always
    /// does.
    pub fn clear(&self, space: &Space) -> Result<bool, PatchError> {
        let mut now = vec![0; self.original.len()];
        space
            .read(self.start, &mut now)
            .map_err(PatchError::io("reading code"))?;
        if now == self.original {
            return Ok(true);
        }
        let cleared = while_stopped(
            space,
            PATIENCE_TO_RESTORE,
            &mut Pause::default(),
            |threads| {
                if self.is_in_use(space, threads)? {
                    return Ok(None);
                }
                forget_left_behind(space, &self.range())?;
                self.restore(space).map(Some)
            },
        )?;
        Ok(cleared.is_some())
    }

    fn is_in_use(&self, space: &Space, threads: &Threads) -> Result<bool, PatchError> {
        let mappings = space.mappings()?;
        let range = self.range();
        Ok(threads.held().iter().any(|held| {
            range.contains(&held.at.pc)
                || saved(space, &mappings, held.at)
                    .iter()
                    .any(|s| range.contains(&s.pc))
        }))
    }
}

/// Where the original bytes are.
enum Source {
    Memory,
    File(File),
}

#[cfg(test)]
mod tests {
    use super::super::entry::entry_of;
    use super::super::entry_nap::EntryNap;
    use super::super::space::mapping_at;
    use super::*;
    use std::io::{PipeReader, Read};
    use std::os::fd::AsRawFd;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// A program whose loader waits: what it has to say of its work is not read.
    fn loading() -> (Child, PipeReader) {
        let (said, says) = std::io::pipe().expect("a pipe");
        // SAFETY: makes a pipe of ours smaller.
        unsafe { libc::fcntl(said.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
        let mut command = Command::new("/bin/echo");
        command.arg("begun").env("LD_DEBUG", "all");
        command.stdout(Stdio::piped()).stderr(says);
        let child = command.spawn().expect("echo");
        let until = Instant::now() + Duration::from_secs(20);
        let is_writing = || {
            let call = std::fs::read_to_string(format!("/proc/{}/syscall", child.id()));
            call.is_ok_and(|c| c.starts_with("1 ") || c.starts_with("20 "))
        };
        // Twice: what is full stays full.
        while !(is_writing() && {
            std::thread::sleep(Duration::from_millis(20));
            is_writing()
        }) {
            assert!(Instant::now() < until, "its loader does not wait");
        }
        (child, said)
    }

    /// A dwell is killed while the loader works, and another clears the bytes in which its nap is.
    #[test]
    fn a_nap_that_was_left_behind_goes_with_its_jump() {
        let (mut child, mut said) = loading();
        let space = Space::open(child.id() as i32).expect("a process of ours");
        let entry = entry_of(space.pid).expect("an entry");
        let bytes = || {
            let mut bytes = [0; 16];
            space.read(entry, &mut bytes).expect("mapped");
            bytes
        };
        let before = bytes();
        let nap = EntryNap::plan(&space, entry).expect("it can be read");
        nap.expect("there is room")
            .put(&space)
            .expect("it is written");
        assert_ne!(bytes(), before);
        let mappings = space.mappings().expect("maps");
        let program = mapping_at(&mappings, entry).expect("mapped");
        let slack = Slack::behind(&space, program).expect("room");
        assert!(slack.clear(&space).expect("it stops"));
        assert_eq!(bytes(), before);
        let reader = std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
        let mut text = String::new();
        let mut output = child.stdout.take().expect("piped");
        output.read_to_string(&mut text).expect("text");
        reader.join().expect("no panic").expect("read");
        assert!(child.wait().expect("it ends").success());
        assert_eq!(text, "begun\n");
    }
}
