//! A program that is watched.
use anyhow::{Context, Result};
use dwell_debuginfo::{Known, Process};
use dwell_script::typed::Script;
use dwell_script::{Input, Macros, compile};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Answers each line that it is told with one, as it does when it is ready.
pub struct Target {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Target {
    /// Starts it and waits until it is ready.
    pub fn start(path: &Path) -> Result<Target> {
        let mut child = Command::new(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", path.display()))?;
        let input = child.stdin.take().context("it is piped")?;
        let output = BufReader::new(child.stdout.take().context("it is piped")?);
        let mut target = Target {
            child,
            input,
            output,
        };
        target.line()?;
        Ok(target)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    /// The answer to a line, a number.
    pub fn ask(&mut self, line: &str) -> Result<f64> {
        writeln!(self.input, "{line}")?;
        let answer = self.line()?;
        let number = answer.trim().parse();
        number.with_context(|| format!("the program answered {answer:?}"))
    }

    /// A script about it.
    pub fn script(&self, text: &str) -> Result<Script> {
        let process = Process::read(self.pid())?;
        let input = Input {
            source: text,
            macros: Macros {
                arguments: vec!["bench"],
                variables: vec![("target", self.pid().into())],
            },
            ..Input::default()
        };
        let known = Known::new(Some(&process));
        Ok(compile(&input, &known).with_context(|| text.to_owned())?.0)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
