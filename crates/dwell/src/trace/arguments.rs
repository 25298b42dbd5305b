//! The command line of `dwell trace`, which is dtrace's.
use clap::Args;
use dwell_script::Options;
use std::ffi::OsString;
use std::path::PathBuf;

/// `dwell trace`.
#[derive(Args, Debug, Clone, Default)]
#[command(disable_help_flag = true)]
pub struct TraceArgs {
    /// Enable a probe by its name, with a predicate and a clause if wanted: -n 'syscall:::entry { @[execname] = count(); }'
    #[arg(short = 'n', value_name = "PROBE [[PREDICATE] ACTION]")]
    pub names: Vec<String>,
    /// Likewise, where a lone word is a function.
    #[arg(short = 'f', value_name = "FUNCTION [[PREDICATE] ACTION]")]
    pub functions: Vec<String>,
    /// Likewise, where a lone word is a module.
    #[arg(short = 'm', value_name = "MODULE [[PREDICATE] ACTION]")]
    pub modules: Vec<String>,
    /// Likewise, where a lone word is a provider.
    #[arg(short = 'P', value_name = "PROVIDER [[PREDICATE] ACTION]")]
    pub providers: Vec<String>,
    /// Run a script.
    #[arg(short = 's', value_name = "FILE")]
    pub scripts: Vec<PathBuf>,
    /// A process; $target is its id. The script ends with it.
    #[arg(short = 'p', value_name = "PID")]
    pub pid: Vec<u32>,
    /// A command to start; $target is its process. The script ends with it.
    #[arg(short = 'c', value_name = "COMMAND", conflicts_with = "pid")]
    pub command: Option<String>,
    /// List the probes instead of enabling them.
    #[arg(short = 'l')]
    pub list: bool,
    /// Print only what the script prints.
    #[arg(short = 'q')]
    pub quiet: bool,
    /// Write to the end of a file.
    #[arg(short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Set an option: -x bufsize=8m
    #[arg(short = 'x', value_name = "OPTION[=VALUE]")]
    pub options: Vec<String>,
    /// Allow actions that change the target or the system.
    #[arg(short = 'w')]
    pub destructive: bool,
    /// Probe descriptions that match nothing are no error.
    #[arg(short = 'Z')]
    pub may_match_nothing: bool,
    /// End after compiling.
    #[arg(short = 'e')]
    pub compile_only: bool,
    /// Show the script as it was understood, and where its probes are: in the kernel or inside the process, and why.
    #[arg(short = 'v')]
    pub verbose: bool,
    /// Draw entries and returns as a tree.
    #[arg(short = 'F')]
    pub flow_indent: bool,
    /// Run the C preprocessor first.
    #[arg(short = 'C')]
    pub preprocess: bool,
    /// Define a name for the preprocessor.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub defines: Vec<String>,
    /// A directory where the preprocessor looks for files.
    #[arg(short = 'I', value_name = "DIRECTORY")]
    pub includes: Vec<PathBuf>,
    /// Undefine a name for the preprocessor.
    #[arg(short = 'U', value_name = "NAME")]
    pub undefined: Vec<String>,
    /// Bytes for records that were not printed yet: -x bufsize.
    #[arg(short = 'b', value_name = "SIZE")]
    pub buffer: Option<String>,
    /// Make a header from the provider file of -s, for programs with probes of their own.
    #[arg(short = 'h', requires = "scripts")]
    pub header: bool,
    /// Make an object file from the provider file of -s, for makefiles that link one.
    #[arg(short = 'G', requires = "scripts", conflicts_with = "header")]
    pub object: bool,
    /// Where the script runs: each probe inside the process it is about if it can be there (quicker by far), else in
    /// the kernel; all in the kernel; or all inside the process, where places that cannot be patched are left out and
    /// named. Without it: `auto`, or `process` for who may not load programs into the kernel.
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub engine: Option<EngineName>,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
    /// $1, $2 and so on.
    #[arg(value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

/// `--engine`.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineName {
    /// In the kernel.
    Kernel,
    /// Inside the process.
    Process,
    /// Each probe inside the process if it can run there, else in the kernel; together what shares variables.
    Auto,
}

impl Default for EngineName {
    /// What the user may have.
    fn default() -> Self {
        /// Of the effective capabilities: CAP_SYS_ADMIN and CAP_BPF.
        const FOR_PROGRAMS: u64 = 1 << 21 | 1 << 39;
        match dwell_collector::effective_capabilities() {
            Some(have) if have & FOR_PROGRAMS == 0 => EngineName::Process,
            _ => EngineName::Auto,
        }
    }
}

impl From<EngineName> for dwell_trace::Engine {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Kernel => Self::Kernel,
            EngineName::Process => Self::Process,
            EngineName::Auto => Self::Auto,
        }
    }
}

/// dtrace's options that have a value.
const WITH_VALUE: &str = "36bcDfiILmnopPsUxX";
/// Those that have none.
const FLAGS: &str = "aABCeFGhHlqSvVwZ";

/// Options that were written in one word, as `-qs script.d` and `-xquiet`, each for itself: next to arguments that may
/// begin with a hyphen, clap takes such words for arguments.
pub fn apart(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut all, mut is_value, mut is_over) = (Vec::new(), false, false);
    for word in arguments {
        is_over |= !is_value && word == "--";
        match word.to_str().and_then(|w| w.strip_prefix('-')) {
            Some(letters) if !is_value && !is_over && is_options(letters) => {
                let value = letters.find(|c| WITH_VALUE.contains(c));
                let flags = &letters[..value.unwrap_or(letters.len())];
                all.extend(flags.chars().map(|c| OsString::from(format!("-{c}"))));
                if let Some(at) = value {
                    all.push(format!("-{}", &letters[at..=at]).into());
                    let value = &letters[at + 1..];
                    is_value = value.is_empty();
                    all.extend((!is_value).then(|| OsString::from(value)));
                }
            }
            _ => {
                is_value = false;
                all.push(word);
            }
        }
    }
    all
}

/// Whether a word behind its hyphen is options: letters without a value, and one that may have one.
fn is_options(letters: &str) -> bool {
    let rest = letters.trim_start_matches(|c| FLAGS.contains(c));
    let is_letter = |c| WITH_VALUE.contains(c);
    !letters.is_empty() && (rest.is_empty() || rest.starts_with(is_letter))
}

impl TraceArgs {
    /// Whether the script is about a process.
    pub fn has_target(&self) -> bool {
        self.command.is_some() || !self.pid.is_empty()
    }

    /// The options that were given, before those of the script.
    pub fn script_options(&self) -> anyhow::Result<Options> {
        let mut options = Options::default();
        let flags = [
            ("quiet", self.quiet),
            ("destructive", self.destructive),
            ("flowindent", self.flow_indent),
            ("zdefs", self.may_match_nothing),
            ("cpp", self.preprocess),
        ];
        for (name, _) in flags.into_iter().filter(|(_, given)| *given) {
            options.set(name, None)?;
        }
        if let Some(size) = &self.buffer {
            let set = options.set("bufsize", Some(size));
            set.map_err(|error| anyhow::anyhow!("failed to set -b {size}: {error}"))?;
        }
        for option in &self.options {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option.as_str(), None),
            };
            let set = options.set(name, value);
            set.map_err(|error| anyhow::anyhow!("failed to set -x {name}: {error}"))?;
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn options_in_one_word_are_taken_apart() {
        let apart = |words: &str| {
            let words = words.split(' ').map(Into::into);
            let all = super::apart(words).into_iter();
            let all = all.map(|word| word.into_string().expect("text"));
            all.collect::<Vec<_>>().join(" ")
        };
        for (written, meant) in [
            ("dtrace -qs x.d 5", "dtrace -q -s x.d 5"),
            ("dtrace -xquiet -s x.d -5", "dtrace -x quiet -s x.d -5"),
            (
                "dtrace -nBEGIN -xbufsize=4m",
                "dtrace -n BEGIN -x bufsize=4m",
            ),
            (
                "dtrace -Cs x.d -DX=1 -Iinc",
                "dtrace -C -s x.d -D X=1 -I inc",
            ),
            ("dtrace -s -qs a", "dtrace -s -qs a"),
            (
                "dtrace --engine kernel -ln x",
                "dtrace --engine kernel -l -n x",
            ),
            ("dtrace -n x -- -qs", "dtrace -n x -- -qs"),
            ("dtrace -s - -7 --3", "dtrace -s - -7 --3"),
        ] {
            assert_eq!(apart(written), meant);
        }
        assert!(apart("dtrace -é").ends_with("-é"));
    }
}
