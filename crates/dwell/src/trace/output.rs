//! Where the script's output goes.
use dwell_script::output::Sink;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// Standard output, a file of `-o`, or one of `freopen`.
pub struct Output {
    first: BufWriter<Box<dyn Write>>,
    reopened: Option<BufWriter<File>>,
}

impl Output {
    /// Standard output, or the end of a file.
    pub fn open(path: Option<&Path>) -> io::Result<Output> {
        let first: Box<dyn Write> = match path {
            Some(path) => Box::new(append(path)?),
            None => Box::new(io::stdout()),
        };
        Ok(Output {
            first: BufWriter::new(first),
            reopened: None,
        })
    }

    fn current(&mut self) -> &mut dyn Write {
        match &mut self.reopened {
            Some(file) => file,
            None => &mut self.first,
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.current().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.current().flush()
    }
}

impl Sink for Output {
    fn reopen(&mut self, file: Option<&[u8]>) -> io::Result<()> {
        self.flush()?;
        let path = file.map(|bytes| Path::new(OsStr::from_bytes(bytes)));
        self.reopened = path.map(append).transpose()?.map(BufWriter::new);
        Ok(())
    }

    fn run(&mut self, command: &[u8]) -> io::Result<()> {
        self.flush()?;
        Command::new("sh")
            .arg("-c")
            .arg(OsStr::from_bytes(command))
            .status()
            .map(drop)
    }
}
