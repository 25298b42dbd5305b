//! Programs to their probes, and off again when a [`Link`] is dropped.
use crate::error::TraceError;
use crate::programs::Loaded;
use libbpf_sys::{bpf_link_create_opts, bpf_raw_tp_opts};
use perf_event_open_sys::{bindings, ioctls, perf_event_open};
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A program at its probes.
#[allow(dead_code, reason = "it is closed when it is dropped")]
pub(crate) struct Link(OwnedFd);

/// Functions of one file.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Where in the file.
    pub(crate) offsets: Vec<u64>,
    /// The numbers of the probes there.
    pub(crate) cookies: Vec<u64>,
    /// Where in the file the probes' counts of watchers are; 0 for those without.
    pub(crate) semaphores: Vec<u64>,
}

impl Link {
    /// At the places of a file, as far as this process runs it; `returns`: when the functions that begin there
    /// return.
    pub(crate) fn functions(
        program: &Loaded,
        file: &str,
        pid: u32,
        places: &Places,
        returns: bool,
    ) -> Result<Link, TraceError> {
        if dwell_maps::living(pid) != pid {
            return Err(TraceError::FirstThreadEnded { pid });
        }
        let path = CString::new(file).expect("a path of /proc has no zeros");
        let mut options = bpf_link_create_opts {
            sz: size_of::<bpf_link_create_opts>() as _,
            ..Default::default()
        };
        let multi = libbpf_sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_3 {
            path: path.as_ptr(),
            offsets: places.offsets.as_ptr(),
            cookies: places.cookies.as_ptr(),
            ref_ctr_offsets: if places.semaphores.iter().all(|at| *at == 0) {
                std::ptr::null()
            } else {
                places.semaphores.as_ptr()
            },
            cnt: places.offsets.len() as u32,
            flags: if returns {
                libbpf_sys::BPF_F_UPROBE_MULTI_RETURN
            } else {
                0
            },
            pid,
            ..Default::default()
        };
        options.__bindgen_anon_1.uprobe_multi = multi;
        // SAFETY: path, offsets, cookies and semaphores live through the call and are as long as they are said to be.
        let fd = unsafe {
            libbpf_sys::bpf_link_create(
                program.descriptor(),
                0,
                libbpf_sys::BPF_TRACE_UPROBE_MULTI,
                &options,
            )
        };
        let link = owned(fd, || {
            format!("attaching to {} functions of {file}", places.offsets.len())
        });
        link.map_err(|error| {
            if std::fs::exists(format!("/proc/{pid}")).unwrap_or(true) {
                return error;
            }
            let error = std::io::Error::other("it has ended");
            TraceError::Process { pid, error }
        })
    }

    /// At a tracepoint of the kernel.
    pub(crate) fn tracepoint(program: &Loaded, name: &str) -> Result<Link, TraceError> {
        let text = CString::new(name).unwrap_or_default();
        let mut options = bpf_raw_tp_opts {
            sz: size_of::<bpf_raw_tp_opts>() as _,
            tp_name: text.as_ptr(),
            ..Default::default()
        };
        // SAFETY: the name lives through the call.
        let fd =
            unsafe { libbpf_sys::bpf_raw_tracepoint_open_opts(program.descriptor(), &mut options) };
        owned(fd, || format!("attaching to the tracepoint {name}"))
    }

    /// At every `period_ns` on a processor.
    pub(crate) fn timer(program: &Loaded, cpu: u32, period_ns: u64) -> Result<Link, TraceError> {
        let mut attributes = bindings::perf_event_attr {
            type_: bindings::PERF_TYPE_SOFTWARE,
            size: size_of::<bindings::perf_event_attr>() as u32,
            config: u64::from(bindings::PERF_COUNT_SW_CPU_CLOCK),
            ..Default::default()
        };
        attributes.__bindgen_anon_1.sample_period = period_ns;
        attributes.set_disabled(1);
        let flags = u64::from(bindings::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: the attributes are initialised and live through the call.
        let fd = unsafe { perf_event_open(&mut attributes, -1, cpu as i32, -1, flags as _) };
        let link = if fd < 0 {
            return Err(TraceError::last("making a timer"));
        } else {
            owned(fd, || "making a timer".into())?
        };
        // SAFETY: both descriptors are open; the arguments are what these requests take.
        let done = unsafe {
            ioctls::SET_BPF(link.0.as_raw_fd(), program.descriptor() as u32) == 0
                && ioctls::ENABLE(link.0.as_raw_fd(), 0) == 0
        };
        if done {
            Ok(link)
        } else {
            Err(TraceError::last("attaching to a timer"))
        }
    }
}

fn owned(fd: i32, doing: impl FnOnce() -> String) -> Result<Link, TraceError> {
    if fd < 0 {
        return Err(TraceError::code(doing(), fd));
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(Link(unsafe { OwnedFd::from_raw_fd(fd) }))
}
