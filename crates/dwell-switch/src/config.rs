//! One TOML file per program: what is to be boosted, and how.
use crate::journal::{there, write_whole};
use serde::Deserialize;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// What becomes of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It is merged, too.
    Static,
    /// It stays a library.
    StaticNolibc,
}

/// How the boosted file takes the program's place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Redirect {
    /// Both change their names.
    #[default]
    Exchange,
    /// The same, and dpkg knows of it.
    Divert,
    /// A mount for processes of this systemd unit.
    Bind(String),
    /// The kernel is told to start the boosted file instead (binfmt_misc).
    Binfmt,
}

/// A program that is to be boosted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file's name without `.toml`.
    pub name: String,
    /// The file.
    pub file: PathBuf,
    /// The program.
    pub elf_path: PathBuf,
    /// What becomes of the C library.
    pub mode: Mode,
    /// Libraries to merge; all that can be, when there are none.
    pub libs: Vec<String>,
    /// How far to go, 0 to 4.
    pub level: u8,
    /// Whether it may have the same addresses in every process (level 2 and up) although it takes connections.
    pub fixed_addresses: bool,
    /// A recording that tells what is hot.
    pub profile_path: Option<PathBuf>,
    /// More files whose change makes it anew.
    pub watch_paths: Vec<PathBuf>,
    /// Arguments to try it with, each of them a run.
    pub test: Vec<String>,
    /// How it takes the program's place.
    pub redirect: Redirect,
    /// Whether a crash may be replayed on the stock program.
    pub replay: bool,
}

/// What is wrong with a configuration.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
#[error("{}{}: {what}", file.display(), line.map(|l| format!(":{l}")).unwrap_or_default())]
pub struct ConfigError {
    /// The configuration.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    elf_path: Spanned<PathBuf>,
    mode: Option<Spanned<String>>,
    libs: Option<Spanned<Words>>,
    level: Option<Spanned<i64>>,
    #[serde(default)]
    fixed_addresses: bool,
    profile_path: Option<Spanned<PathBuf>>,
    #[serde(default)]
    watch_paths: Vec<Spanned<PathBuf>>,
    redirect: Option<Spanned<String>>,
    unit: Option<Spanned<String>>,
    #[serde(default)]
    test: Vec<String>,
    #[serde(default)]
    replay: bool,
}

/// A list, or one string with spaces, as the published configuration has it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    List(Vec<String>),
    Text(String),
}

/// End of the names of configurations that were set aside.
pub const ROLLED_BACK: &str = "rolled-back";
/// Begins the lines that tell why.
const REASON: &str = "# rolled back: ";
const BUILD_ID: &str = "# build id: ";

impl Config {
    /// Reads a file; none when it was set aside meanwhile.
    fn read(file: &Path) -> Option<Result<Self, ConfigError>> {
        let text = there(fs::read_to_string(file)).transpose()?;
        let text = text.map_err(|error| ConfigError {
            file: file.to_owned(),
            line: None,
            what: format!("cannot be read: {error}"),
        });
        Some(text.and_then(|text| Config::parse(file, &text)))
    }

    /// Reads a file's text.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let reader = Reader { file, text };
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let what = error.message().trim().replace('\n', " ");
            let what = format!("{what}; the keys are described in `dwell boost daemon --help`");
            reader.error(error.span(), what)
        })?;
        reader.absolute(&raw.elf_path, "elf_path")?;
        let mode = match &raw.mode {
            Some(mode) => reader.one_of(mode, "mode", &["static", "static-nolibc"])?,
            None => 1,
        };
        let level = raw.level.as_ref().map_or(Ok(0), |level| {
            let wrong = || {
                let what = format!("level = {} is not there: write 0 to 4", level.as_ref());
                reader.error(Some(level.span()), what)
            };
            u8::try_from(*level.as_ref())
                .ok()
                .filter(|l| *l <= 4)
                .ok_or_else(wrong)
        })?;
        let redirect = reader.redirect(&raw, mode == 0 && level >= 3)?;
        for path in raw.watch_paths.iter().chain(&raw.profile_path) {
            reader.absolute(path, "watch_paths and profile_path")?;
            if !path.as_ref().exists() {
                let what = format!(
                    "{}: no such file: correct the path, or leave it out",
                    path.as_ref().display()
                );
                return Err(reader.error(Some(path.span()), what));
            }
        }
        let libs = raw.libs.map(|libs| match libs.into_inner() {
            Words::List(list) => list,
            Words::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
        });
        Ok(Config {
            name: file
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            file: file.to_owned(),
            elf_path: raw.elf_path.into_inner(),
            mode: [Mode::Static, Mode::StaticNolibc][mode],
            libs: libs.unwrap_or_default(),
            level,
            fixed_addresses: raw.fixed_addresses,
            profile_path: raw.profile_path.map(Spanned::into_inner),
            watch_paths: raw
                .watch_paths
                .into_iter()
                .map(Spanned::into_inner)
                .collect(),
            test: raw.test,
            redirect,
            replay: raw.replay,
        })
    }
}

struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, span: Option<Range<usize>>, what: String) -> ConfigError {
        let before = span.and_then(|s| self.text.get(..s.start));
        ConfigError {
            file: self.file.to_owned(),
            line: before.map(|b| b.matches('\n').count() + 1),
            what,
        }
    }

    fn absolute(&self, path: &Spanned<PathBuf>, key: &str) -> Result<(), ConfigError> {
        if path.as_ref().is_absolute() {
            return Ok(());
        }
        let what = format!("{key}: {:?} must begin with /", path.as_ref());
        Err(self.error(Some(path.span()), what))
    }

    /// `whole` is whether the boosted file has the loader, and the C library, in it.
    fn redirect(&self, raw: &Raw, whole: bool) -> Result<Redirect, ConfigError> {
        let ways = ["exchange", "divert", "bind", "binfmt"];
        let way = match &raw.redirect {
            Some(way) => self.one_of(way, "redirect", &ways)?,
            None => 0,
        };
        match (way, &raw.unit) {
            (2, None) => {
                let span = raw.redirect.as_ref().map(Spanned::span);
                let what = "redirect = \"bind\" is for one service: add unit = \"NAME.service\"";
                Err(self.error(span, what.into()))
            }
            (2, Some(unit)) if is_service(unit.as_ref()) => {
                Ok(Redirect::Bind(unit.as_ref().clone()))
            }
            (2, Some(unit)) => {
                let what = format!("unit = {:?} is no NAME.service", unit.as_ref());
                Err(self.error(Some(unit.span()), what))
            }
            (_, Some(unit)) => {
                let what = "unit goes with redirect = \"bind\" only";
                Err(self.error(Some(unit.span()), what.into()))
            }
            (3, None) if !whole => {
                let span = raw.redirect.as_ref().map(Spanned::span);
                let what = "redirect = \"binfmt\" needs mode = \"static\" and level = 3 or 4: with another loader and C \
                            library, as a container may have, the boosted file would not work";
                Err(self.error(span, what.into()))
            }
            (3, None) => Ok(Redirect::Binfmt),
            (way, None) => Ok([Redirect::Exchange, Redirect::Divert][way].clone()),
        }
    }

    fn one_of(
        &self,
        value: &Spanned<String>,
        key: &str,
        known: &[&str],
    ) -> Result<usize, ConfigError> {
        let at = known.iter().position(|k| k == value.as_ref());
        at.ok_or_else(|| {
            let what = format!(
                "{key} = {:?} is not there: write {}",
                value.as_ref(),
                known.join(" or ")
            );
            self.error(Some(value.span()), what)
        })
    }
}

/// By the letters that systemd allows.
fn is_service(unit: &str) -> bool {
    let name = unit.strip_suffix(".service").unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    !name.is_empty() && name.chars().all(allowed)
}

/// All configurations of a folder, in the order of their names, each read or refused. A folder that is not there is
/// empty.
pub fn configs(folder: &Path) -> io::Result<Vec<Result<Config, ConfigError>>> {
    let files = files(folder, ".toml")?;
    Ok(files.iter().filter_map(|file| Config::read(file)).collect())
}

fn files(folder: &Path, end: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(end) && !name.starts_with('.') {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A configuration that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// What was configured, if it can be read.
    pub config: Option<Config>,
    /// The configuration's name.
    pub name: String,
    /// Where it is.
    pub file: PathBuf,
    /// Why, and when.
    pub reasons: Vec<String>,
    /// Build id of the merged file that it was about: another one is allowed again. None: only a person allows it.
    pub build_id: Option<String>,
}

/// All configurations that were set aside.
pub fn rolled_back(folder: &Path) -> io::Result<Vec<RolledBack>> {
    let files = files(folder, &format!(".toml.{ROLLED_BACK}"))?;
    let read = |file| read_rolled_back(file).transpose();
    files.into_iter().filter_map(read).collect()
}

/// None when it was put back meanwhile.
fn read_rolled_back(file: PathBuf) -> io::Result<Option<RolledBack>> {
    let Some(text) = there(fs::read_to_string(&file))? else {
        return Ok(None);
    };
    let original = file.with_extension("");
    let after = |start: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|l| l.strip_prefix(start));
        lines.map(str::to_owned).collect()
    };
    Ok(Some(RolledBack {
        config: Config::parse(&original, &text).ok(),
        name: original
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        reasons: after(REASON),
        build_id: after(BUILD_ID).pop(),
        file,
    }))
}

/// Sets a configuration aside: it is not applied again, also not after a reboot, unless the build id is another or
/// [`put_back`] is called.
pub fn set_aside(file: &Path, reasons: &[String], build_id: Option<&str>) -> io::Result<PathBuf> {
    let aside = file.with_extension(format!("toml.{ROLLED_BACK}"));
    // First of all it is out of use, whatever happens to us.
    fs::rename(file, &aside)?;
    let mut text = String::new();
    for reason in reasons {
        text += &format!("{REASON}{}\n", reason.replace('\n', " "));
    }
    text.extend(build_id.map(|id| format!("{BUILD_ID}{id}\n")));
    text += &fs::read_to_string(&aside)?;
    write_whole(&aside, text.as_bytes())?;
    Ok(aside)
}

/// Adds a reason to a configuration that was set aside.
pub fn note(aside: &RolledBack, reason: &str) -> io::Result<()> {
    let text = fs::read_to_string(&aside.file)?;
    let reason = reason.replace('\n', " ");
    write_whole(&aside.file, format!("{REASON}{reason}\n{text}").as_bytes())
}

/// Allows a configuration again.
pub fn put_back(aside: &RolledBack) -> io::Result<PathBuf> {
    let text = fs::read_to_string(&aside.file)?;
    let ours = |line: &&str| !line.starts_with(REASON) && !line.starts_with(BUILD_ID);
    let kept: Vec<&str> = text.lines().filter(ours).collect();
    let file = aside.file.with_extension("");
    write_whole(&file, (kept.join("\n") + "\n").as_bytes())?;
    fs::remove_file(&aside.file)?;
    Ok(file)
}

/// Writes a configuration for a program that has none.
pub fn add(folder: &Path, program: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let mut file = folder.join(format!("{name}.toml"));
    if file.exists() {
        // Another program of the same name.
        let whole = program.to_string_lossy().replace('/', "-");
        file = folder.join(format!("{}.toml", whole.trim_start_matches('-')));
    }
    // Rust's quotes are TOML's, but for control characters, which the reader then refuses.
    let path = program.to_string_lossy();
    write_whole(&file, format!("elf_path = {path:?}\n").as_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("/etc/x/git.toml"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn all_keys() {
        let text = "elf_path = \"/usr/bin/git\"\nmode = \"static-nolibc\"\nlibs = [\"libz.so.1\"]\nlevel = 1\n\
            watch_paths = [\"/etc\"]\nredirect = \"divert\"\ntest = [\"--version\"]\n";
        let config = parse(text).expect("right");
        assert_eq!(config.name, "git");
        assert_eq!((config.level, config.mode), (1, Mode::StaticNolibc));
        assert_eq!(config.libs, ["libz.so.1"]);
        assert_eq!(config.redirect, Redirect::Divert);
        assert_eq!(config.watch_paths, [Path::new("/etc")]);
        let published = parse("elf_path = \"/usr/bin/git\"\nlibs = \"a.so b.so\"").expect("right");
        assert_eq!(published.libs, ["a.so", "b.so"]);
        assert_eq!(published.level, 0);
        assert!(!published.fixed_addresses);
        let asked = parse("elf_path = \"/x\"\nlevel = 3\nfixed_addresses = true").expect("right");
        assert!(asked.fixed_addresses && asked.level == 3);
        assert_eq!(asked.redirect, Redirect::Exchange);
        let bound = "elf_path = \"/x\"\nredirect = \"bind\"\nunit = \"x@1.service\"";
        let bound = parse(bound).expect("right").redirect;
        assert_eq!(bound, Redirect::Bind("x@1.service".into()));
        let all = "elf_path = \"/x\"\nmode = \"static\"\nlevel = 3\nredirect = \"binfmt\"";
        assert_eq!(parse(all).expect("right").redirect, Redirect::Binfmt);
    }

    #[test]
    fn errors_name_line_and_remedy() {
        let cases = [
            (
                "elf_path = \"/a\"\nelf_pth = \"/b\"",
                ":2: unknown field `elf_pth`",
            ),
            ("# nothing\n", "missing field `elf_path`"),
            ("elf_path = \"a\"", ":1: elf_path: \"a\" must begin with /"),
            (
                "elf_path = \"/a\"\n\nlevel = 9",
                ":3: level = 9 is not there: write 0 to 4",
            ),
            ("elf_path = \"/a\"\nlevel = -1", ":2: level = -1"),
            ("elf_path = \"/a\"\nlevel = \"1\"", ":2: invalid type"),
            (
                "elf_path = \"/a\"\nmode = \"fast\"",
                ":2: mode = \"fast\" is not there: write static or static-nolibc",
            ),
            (
                "elf_path = \"/a\"\nredirect = \"mount\"",
                ":2: redirect = \"mount\" is not there: write exchange or divert or bind or binfmt",
            ),
            (
                "elf_path = \"/a\"\nlevel = 3\nredirect = \"binfmt\"",
                ":3: redirect = \"binfmt\" needs mode = \"static\" and level = 3 or 4",
            ),
            (
                "elf_path = \"/a\"\nmode = \"static\"\nlevel = 2\nredirect = \"binfmt\"",
                ":4: redirect = \"binfmt\" needs",
            ),
            (
                "elf_path = \"/a\"\nredirect = \"bind\"",
                ":2: redirect = \"bind\" is for one service: add unit",
            ),
            (
                "elf_path = \"/a\"\nredirect = \"bind\"\nunit = \"../a.service\"",
                ":3: unit = \"../a.service\" is no NAME.service",
            ),
            (
                "elf_path = \"/a\"\nunit = \"a.service\"",
                ":2: unit goes with redirect = \"bind\" only",
            ),
            (
                "elf_path = \"/a\"\nwatch_paths = [\n\"/none/there\"]",
                ":3: /none/there: no such file",
            ),
            ("elf_path = \"/a", ":1: "),
        ];
        for (text, expected) in cases {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with("/etc/x/git.toml"), "{error}");
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn set_aside_and_put_back() {
        let folder = std::env::temp_dir().join(format!("dwell-config-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        assert_eq!(configs(&folder).expect("an empty folder"), []);
        let file = add(&folder, Path::new("/usr/bin/git")).expect("written");
        assert_eq!(file, folder.join("git.toml"));
        let other = add(&folder, Path::new("/opt/git")).expect("written");
        assert_eq!(other, folder.join("opt-git.toml"));
        let before = fs::read_to_string(&file).expect("there");
        let reasons = ["SIGSEGV\nin 4".to_owned(), "more".to_owned()];
        set_aside(&file, &reasons, Some("abc")).expect("set aside");
        let names = |configs: Vec<Result<Config, ConfigError>>| -> Vec<String> {
            configs
                .into_iter()
                .map(|c| c.expect("right").name)
                .collect()
        };
        assert_eq!(names(configs(&folder).expect("read")), ["opt-git"]);
        let aside = rolled_back(&folder).expect("read");
        assert_eq!(aside.len(), 1);
        assert_eq!(aside[0].name, "git");
        assert_eq!(aside[0].reasons, ["SIGSEGV in 4", "more"]);
        assert_eq!(aside[0].build_id.as_deref(), Some("abc"));
        let config = aside[0].config.as_ref().expect("still right");
        assert_eq!(config.elf_path, Path::new("/usr/bin/git"));
        note(&aside[0], "replayed").expect("written");
        let noted = rolled_back(&folder).expect("read");
        assert_eq!(noted[0].reasons, ["replayed", "SIGSEGV in 4", "more"]);
        assert_eq!(noted[0].build_id.as_deref(), Some("abc"));
        put_back(&aside[0]).expect("put back");
        assert_eq!(fs::read_to_string(&file).expect("there"), before);
        assert_eq!(names(configs(&folder).expect("read")), ["git", "opt-git"]);
        fs::remove_dir_all(&folder).expect("removed");
    }

    /// The daemon reads them while somebody takes programs back and allows them again.
    #[test]
    fn configurations_are_read_while_they_are_set_aside() {
        let folder = std::env::temp_dir().join(format!("dwell-asides-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let file = add(&folder, Path::new("/usr/bin/git")).expect("written");
        let busy = std::thread::spawn({
            let folder = folder.clone();
            move || {
                for _ in 0..300 {
                    set_aside(&file, &[], None).expect("set aside");
                    put_back(&rolled_back(&folder).expect("read")[0]).expect("put back");
                }
            }
        });
        while !busy.is_finished() {
            rolled_back(&folder).expect("read");
            let read = configs(&folder).expect("read");
            assert!(read.iter().all(Result::is_ok), "{read:?}");
        }
        busy.join().expect("done");
        fs::remove_dir_all(&folder).expect("removed");
    }
}
