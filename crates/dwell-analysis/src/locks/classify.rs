//! What a futex wait is: by the functions of its stack, else by how it waits.
use super::kinds::{self, Kind, PTHREAD, Says, Word};
use super::libraries::{self, Library};
use crate::names::{FunctionId, Names, PathId};
use dwell_recording::rows::{SiteRow, operation};

/// What one wait site is.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Whose lock: `glibc`, `musl`, `Rust`, … ; empty when nothing tells.
    pub runtime: &'static str,
    /// What it is called there: `mutex`, `cond` …; `futex` when nothing tells.
    pub name: &'static str,
    /// What it means.
    pub says: Option<Says>,
    /// Where the word is.
    pub word: Word,
    /// The function that wanted it.
    pub caller: Option<FunctionId>,
    /// See [`Kind::tries_again`].
    pub tries_again: bool,
}

impl Class {
    pub(super) fn of(kind: &Kind, caller: Option<FunctionId>) -> Class {
        Class {
            runtime: kind.runtime,
            name: kind.name,
            says: Some(kind.says),
            word: kind.word,
            caller,
            tries_again: kind.tries_again,
        }
    }
}

/// Whether a function of the C library has no name.
fn is_in_libc(name: &str) -> bool {
    ["[libc.so", "[libc-", "[libpthread"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Whether threads begin in this function.
fn begins_threads(name: &str) -> bool {
    matches!(kinds::plain(name), "start_thread" | "clone3" | "clone")
}

/// The rows of the table that a recording's functions have.
pub struct Classifier<'a> {
    names: &'a Names,
    /// By function.
    kinds: Vec<Option<&'static Kind>>,
}

impl<'a> Classifier<'a> {
    /// Looks every function up once.
    pub fn of(names: &'a Names) -> Classifier<'a> {
        let kinds = names.functions.iter().map(|f| match f.kernel {
            true => None,
            false => kinds::of_function(&f.name),
        });
        Classifier {
            names,
            kinds: kinds.collect(),
        }
    }

    /// What a wait of this site at this stack is.
    pub fn class(&self, site: &SiteRow, path: Option<PathId>) -> Class {
        let path = path.map_or(&[][..], |path| self.names.path(path));
        let by_names = self.by_names(site, path);
        // A condition may be a library's means to something else.
        by_names
            .filter(|class| class.name != "cond")
            .or_else(|| self.in_library(path))
            .or(by_names)
            .unwrap_or_else(|| self.by_operation(site, path))
    }

    /// What a library waits for by a condition or the kernel alone, in functions of its own.
    fn in_library(&self, path: &[FunctionId]) -> Option<Class> {
        let mut library: Option<&Library> = None;
        let user = path.iter().enumerate();
        let user = user.filter(|(_, f)| !self.names.function(**f).kernel);
        for (place, function) in user.rev() {
            let name = self.name(*function);
            if let Some(way) = libraries::way(name) {
                return Some(Class::of(way, self.caller(&path[..place])));
            }
            match (library, Library::of_function(name)) {
                (_, Some(its)) => library = Some(its),
                (Some(library), None) if begins_threads(name) => {
                    return Some(Class::of(&library.own, None));
                }
                (Some(library), None) => {
                    let caller = self.caller(&path[..=place]);
                    return library.other.as_ref().map(|kind| Class::of(kind, caller));
                }
                (None, None) if self.is_means(*function) => {}
                (None, None) => return None,
            }
        }
        None
    }

    /// Whether a function of the C library is a wait for a condition, or belongs to it or to a bare system call.
    fn is_means(&self, function: FunctionId) -> bool {
        match self.kinds[function as usize] {
            Some(kind) => kind.runtime == PTHREAD && kind.name == "cond",
            None => kinds::is_plumbing(self.name(function)),
        }
    }

    fn name(&self, function: FunctionId) -> &str {
        &self.names.function(function).name
    }

    fn by_names(&self, site: &SiteRow, path: &[FunctionId]) -> Option<Class> {
        let of = |(place, f): (usize, &FunctionId)| Some((place, self.kinds[*f as usize]?));
        let rows = path.iter().enumerate().filter_map(of);
        // Of equals the last, which is the innermost.
        let (place, kind) = rows.max_by_key(|(_, kind)| kind.rank)?;
        let mut class = Class::of(kind, self.caller(&path[..place]));
        if class.runtime == PTHREAD {
            self.tell_library(&mut class, site, path);
        } else if class.word == Word::Condition && self.is_musl(path) {
            class.word = Word::Thread;
        } else if class.word == Word::Condition && site.operation == operation::WAIT {
            class.word = Word::At(0);
        }
        Some(class)
    }

    fn is_musl(&self, path: &[FunctionId]) -> bool {
        path.iter().any(|f| {
            let name = self.name(*f);
            name.starts_with("[ld-musl")
                || matches!(kinds::plain(name), "timedwait" | "timedwait_cp")
        })
    }

    /// glibc or musl, and what only one of them does.
    fn tell_library(&self, class: &mut Class, site: &SiteRow, path: &[FunctionId]) {
        if self.is_musl(path) {
            class.runtime = "musl";
            if class.word != Word::Thread {
                class.word = Word::At(0);
            }
            return;
        }
        class.runtime = "glibc";
        // glibc waits for a condition with a bit set; without one it takes the mutex back.
        if class.name == "cond" && site.operation == operation::WAIT {
            (class.name, class.says, class.word) = ("mutex", Some(Says::Lock), Word::At(0));
        }
        let cpp = |f: &FunctionId| {
            let name = self.name(*f);
            [
                "std::mutex::",
                "std::__condvar::",
                "std::condition_variable",
                "std::shared_mutex",
                "std::__shared_mutex",
            ]
            .iter()
            .any(|start| name.starts_with(start))
        };
        if path.iter().any(cpp) {
            class.runtime = "C++";
        }
    }

    /// The innermost function that wanted the lock, not one that belongs to it.
    fn caller(&self, outside: &[FunctionId]) -> Option<FunctionId> {
        let wanted = |f: &&FunctionId| {
            self.kinds[**f as usize].is_none()
                && !self.names.function(**f).kernel
                && !kinds::is_plumbing(self.name(**f))
        };
        outside.iter().rev().find(wanted).copied()
    }

    /// Whether a stack of GNU's OpenMP, of which there are no names, is in nothing that it runs for the program.
    pub fn is_bare_openmp(&self, path: PathId) -> bool {
        let path = self.names.path(path);
        let user = path.iter().filter(|f| !self.names.function(**f).kernel);
        let mut names = user.map(|f| self.name(*f)).peekable();
        names.peek().is_some()
            && names.all(|name| {
                name.starts_with(kinds::BARE_OPENMP) || is_in_libc(name) || begins_threads(name)
            })
    }

    /// Without a known name: what the operation can only be, or what it is in the C library.
    fn by_operation(&self, site: &SiteRow, path: &[FunctionId]) -> Class {
        let mut user = path.iter().filter(|f| !self.names.function(**f).kernel);
        let leaf = user.next_back().map_or("", |f| self.name(*f));
        let in_libc = is_in_libc(leaf);
        let (runtime, name, says) = match site.operation.as_str() {
            operation::WAIT if leaf.starts_with(kinds::BARE_OPENMP) => {
                (kinds::OPENMP, "lock", Some(Says::Lock))
            }
            operation::LOCK_PI | operation::LOCK_PI2 => ("glibc", "PI mutex", Some(Says::Lock)),
            operation::WAIT_REQUEUE_PI => ("glibc", "PI cond", Some(Says::Idle)),
            operation::WAIT if in_libc && !site.timed => ("glibc", "mutex", Some(Says::Lock)),
            operation::WAIT_BITSET if in_libc => ("glibc", "cond", Some(Says::Idle)),
            operation::OTHER => ("", "futex", None),
            _ => ("", "futex", Some(Says::ByWakers)),
        };
        Class {
            runtime,
            name,
            says,
            word: Word::At(0),
            caller: self.caller(path),
            tries_again: false,
        }
    }
}
