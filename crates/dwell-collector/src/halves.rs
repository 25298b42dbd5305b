//! Loads an eBPF object's programs in two threads.
//!
//! Most of what the start of a recording takes is the kernel's proof of each program, and libbpf asks for one after
//! the other. So the object is opened twice: each of the two has one half of the programs, and both the same maps.
use crate::error::CollectError;
use libbpf_rs::{AsRawLibbpf, Object, ObjectBuilder, OpenMap, OpenObject, ProgramMut};
use std::os::fd::BorrowedFd;
use std::thread;

/// An object that is opened and not loaded yet.
pub(crate) struct OpenHalves {
    /// To be configured: what it leaves out, the second one does, too.
    pub first: OpenObject,
    second: OpenObject,
}

/// One whose maps are made, and whose programs are not loaded yet.
pub(crate) struct HalvesWithMaps(OpenHalves);

/// The loaded object.
pub(crate) struct Halves {
    first: Object,
    second: Object,
}

impl OpenHalves {
    /// `object`: an ELF file, aligned as such.
    pub fn open(object: &[u8]) -> Result<Self, CollectError> {
        let open = || {
            ObjectBuilder::default()
                .open_memory(object)
                .map_err(CollectError::load)
        };
        Ok(OpenHalves {
            first: open()?,
            second: open()?,
        })
    }

    /// Makes the maps. The programs of these names will be loaded beside all others.
    pub fn make_maps(mut self, beside: &[&str]) -> Result<HalvesWithMaps, CollectError> {
        for (mut one, mut other) in self.first.progs_mut().zip(self.second.progs_mut()) {
            let is_beside = beside.iter().any(|name| one.name() == *name);
            other.set_autoload(one.autoload() && is_beside);
            one.set_autoload(one.autoload() && !is_beside);
        }
        create_maps(&mut self.first)?;
        share_maps(&self.first, &mut self.second)?;
        Ok(HalvesWithMaps(self))
    }
}

impl HalvesWithMaps {
    /// The map of that name.
    pub fn map(&self, name: &str) -> Result<BorrowedFd<'_>, CollectError> {
        let map = self.0.first.maps().find(|map| map.name() == name);
        map.map(|map| descriptor(&map))
            .ok_or_else(|| CollectError::Internal(format!("no eBPF map {name}")))
    }

    /// Loads the programs.
    pub fn load(self) -> Result<Halves, CollectError> {
        let OpenHalves { first, second } = self.0;
        let (first, second) = thread::scope(|scope| {
            let second = scope.spawn(|| second.load());
            (first.load(), second.join())
        });
        let second = second
            .map_err(|_| CollectError::Internal("a thread that loads programs".to_owned()))?;
        Ok(Halves {
            first: first.map_err(CollectError::load)?,
            second: second.map_err(CollectError::load)?,
        })
    }
}

impl Halves {
    /// The object that all maps can be had from.
    pub fn maps(&self) -> &Object {
        &self.first
    }

    /// All programs, each of them twice: one of the two was not loaded, as those that were left out.
    pub fn programs(&self) -> impl Iterator<Item = ProgramMut<'_>> {
        self.second.progs_mut().chain(self.first.progs_mut())
    }

    /// A program that was loaded.
    pub fn program(&self, name: &str) -> Result<ProgramMut<'_>, CollectError> {
        self.programs()
            .find(|p| p.name() == name && p.autoload())
            .ok_or_else(|| CollectError::Internal(format!("no eBPF program {name} was loaded")))
    }
}

/// Makes an object's maps, and readies its programs.
fn create_maps(open: &mut OpenObject) -> Result<(), CollectError> {
    // SAFETY: a live object that is not loaded, and that nobody else can reach meanwhile.
    let error = unsafe { libbpf_sys::bpf_object__prepare(open.as_libbpf_object().as_ptr()) };
    match error {
        0 => Ok(()),
        _ => Err(CollectError::load(
            std::io::Error::from_raw_os_error(-error).into(),
        )),
    }
}

/// Has an object that is not prepared use the maps of one that is, of the same file.
fn share_maps(made: &OpenObject, other: &mut OpenObject) -> Result<(), CollectError> {
    for (made, mut other) in made.maps().zip(other.maps_mut()) {
        if !made.autocreate() {
            other.set_autocreate(false).map_err(CollectError::load)?;
            continue;
        }
        other
            .reuse_fd(descriptor(&made))
            .map_err(CollectError::load)?;
    }
    Ok(())
}

/// That of a map whose object is prepared.
fn descriptor<'o>(map: &OpenMap<'o>) -> BorrowedFd<'o> {
    // SAFETY: the map lives as long as its object, and so does its descriptor, since that was prepared.
    unsafe { BorrowedFd::borrow_raw(libbpf_sys::bpf_map__fd(map.as_libbpf_object().as_ptr())) }
}
