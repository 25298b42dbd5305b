//! Which bytes to overwrite, from the bytes of the file alone.
//!
//! The phases, each borrowing from the one before: [`Image`] knows a file's functions; `points` turns a
//! wanted place into instructions; `windows` makes room for a jump at each; `sweep` looks through the
//! whole file for anything that could enter a window in the middle; `stub` writes what runs instead.
mod image;
mod landing;
mod points;
mod refusal;
mod stub;
mod sweep;
mod windows;

pub use image::{Function, Image};
pub use points::{begins_transaction, keeps_first_argument, parts, past_entry};
pub use refusal::Refusal;
pub use stub::{HookSite, Stub, StubError, assemble, longest_stub};
pub use windows::{Site, Window};

/// Where in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Where calls arrive: the first instruction, after an `endbr64`.
    Entry,
    /// The same, also where the function loops to it: what is there sees passes, which may be more than calls. No more may be
    /// live there than at an entry.
    Head,
    /// The instruction at this distance from the start, bytes.
    Offset(u32),
    /// Every `ret` and every jump that leaves the function.
    Returns,
    /// Every `ret`. With those of all its [`parts`], this is where its result is known.
    Rets,
}

/// A place in a function of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Stated address of the function.
    pub function: u64,
    /// Where in it.
    pub place: Place,
}

/// What to overwrite, and what cannot be done.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// By address, none touching another.
    pub windows: Vec<Window>,
    /// Index of each request that was refused, and why.
    pub refused: Vec<(usize, Refusal)>,
}

/// Plans all requests of one file. A request is planned whole or refused whole.
pub fn plan(image: &Image<'_>, requests: &[Request]) -> Plan {
    let mut draft = windows::Draft::default();
    let mut refused = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        match points::of(image, *request) {
            Ok((function, points)) => draft.add(index, function, points),
            Err(refusal) => refused.push((index, refusal)),
        }
    }
    let (mut windows, too_tight) = draft.lay_out(image);
    refused.extend(too_tight);
    for (window, refusal) in sweep::entered(image, &windows) {
        refused.extend(windows[window].sites.iter().map(|s| (s.request, refusal)));
    }
    refused.sort_by_key(|r| r.0);
    refused.dedup_by_key(|r| r.0);
    let is_refused = |site: &Site| refused.binary_search_by_key(&site.request, |r| r.0).is_ok();
    for window in &mut windows {
        window.sites.retain(|site| !is_refused(site));
    }
    windows.retain(|w| !w.sites.is_empty());
    Plan { windows, refused }
}
