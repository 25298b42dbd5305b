//! Programs into the kernel.
use crate::error::TraceError;
use crate::maps::Maps;
use crate::thread_time;
use dwell_abi::program::instruction::{
    Alu, CALL, Jump, LOAD_64, MAY_GIVE_UP, STORE, STORE_ADDRESS,
};
use dwell_abi::program::{Instruction, Program, operation as op};
use dwell_collector::Subprogram;
use dwell_script::codegen::Site;
use libbpf_sys::{bpf_func_info, bpf_insn, bpf_prog_load_opts, bpf_test_run_opts};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

/// Bytes for the verifier's words, asked for when it refuses.
const LOG_SIZE: usize = 1 << 20;
/// How much of them is shown.
const LOG_SHOWN: usize = 2000;
/// Words that the context of a program without a probe has.
const ARGUMENTS: usize = 12;

/// A program in the kernel.
pub(crate) struct Loaded(OwnedFd);

/// Which type of program serves a kind of probe, and what it says it will be attached to.
fn kind(site: Site) -> (libbpf_sys::bpf_prog_type, libbpf_sys::bpf_attach_type) {
    match site {
        Site::Entry | Site::Return | Site::Offset | Site::Static(_) => (
            libbpf_sys::BPF_PROG_TYPE_KPROBE,
            libbpf_sys::BPF_TRACE_UPROBE_MULTI,
        ),
        Site::Tick | Site::Profile => (libbpf_sys::BPF_PROG_TYPE_PERF_EVENT, 0),
        Site::Begin
        | Site::End
        | Site::Error
        | Site::SyscallEntry
        | Site::SyscallReturn
        | Site::Tracepoint => (libbpf_sys::BPF_PROG_TYPE_RAW_TRACEPOINT, 0),
    }
}

impl Loaded {
    /// Loads a program for a kind of probe; `probe` is for messages. One that takes user stacks needs the function
    /// that does.
    pub(crate) fn load(
        site: Site,
        program: &Program,
        maps: &Maps,
        user_stack: Option<&Subprogram>,
        probe: &str,
    ) -> Result<Loaded, TraceError> {
        refuse_inside(&program.code)?;
        let expanded = match maps.thread_times() {
            Some(table) => thread_time::expand(&program.code, table),
            None => Some(program.code.clone()),
        };
        let code = expanded.ok_or_else(|| TraceError::Kernel {
            doing: format!("making a program for {probe}"),
            error: io::Error::from_raw_os_error(libc::E2BIG),
        })?;
        let user_stack = user_stack.filter(|_| takes_user_stacks(program));
        let image = Image::link(&code, maps, user_stack);
        match load(site, &image, &mut []) {
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EACCES | libc::EINVAL | libc::E2BIG)
                ) =>
            {
                let mut log = vec![0; LOG_SIZE];
                match load(site, &image, &mut log) {
                    Ok(loaded) => Ok(loaded),
                    Err(_) => Err(TraceError::Verifier {
                        probe: probe.into(),
                        log: end_of(&log),
                    }),
                }
            }
            Err(error) => Err(TraceError::Kernel {
                doing: format!("loading a program for {probe}"),
                error,
            }),
            Ok(loaded) => Ok(loaded),
        }
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Runs a program that has no probe, here and now.
    pub(crate) fn run(&self) -> Result<(), TraceError> {
        let context = [0u64; ARGUMENTS];
        let mut options = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as _,
            ctx_in: context.as_ptr().cast(),
            ctx_size_in: size_of_val(&context) as u32,
            ..Default::default()
        };
        // SAFETY: the options and the context live through the call; the descriptor is a program's.
        let code = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.descriptor(), &mut options) };
        if code != 0 {
            return Err(TraceError::code("running BEGIN or END", code));
        }
        Ok(())
    }
}

/// Whether the kernel knows [`MAY_GIVE_UP`].
fn loops_may_give_up() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let code = [
            Instruction::alu_imm(Alu::Mov, 0, 0),
            Instruction::may_give_up(0),
            Instruction::exit(),
        ];
        let image = Image {
            code: code.map(|i| instruction(i.encode())).to_vec(),
            functions: Vec::new(),
            btf: None,
        };
        load(Site::Begin, &image, &mut []).is_ok()
    })
}

fn load(site: Site, image: &Image, log: &mut [u8]) -> io::Result<Loaded> {
    let (kind, attached) = kind(site);
    let mut options = bpf_prog_load_opts {
        sz: size_of::<bpf_prog_load_opts>() as _,
        expected_attach_type: attached,
        ..Default::default()
    };
    if let Some(btf) = image.btf {
        options.prog_btf_fd = btf as u32;
        options.func_info = image.functions.as_ptr().cast();
        options.func_info_cnt = image.functions.len() as u32;
        options.func_info_rec_size = size_of::<bpf_func_info>() as u32;
    }
    if !log.is_empty() {
        options.log_level = 1;
        options.log_size = log.len() as u32;
        options.log_buf = log.as_mut_ptr().cast();
    }
    // SAFETY: names are constants that end with zeros; the image, log and options live through the call.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            kind,
            c"dwell_clauses".as_ptr(),
            c"GPL".as_ptr(),
            image.code.as_ptr(),
            image.code.len() as _,
            &mut options,
        )
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(Loaded(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// The kernel has not all operations.
fn refuse_inside(code: &[Instruction]) -> Result<(), TraceError> {
    let calls = code.iter().filter(|i| i.opcode == CALL);
    let mut what = calls.filter_map(|i| match i.imm as u32 {
        op::SPEND_TIME => Some("chill(): programs there may not loop for long"),
        _ => None,
    });
    what.next()
        .map_or(Ok(()), |what| Err(TraceError::NotInKernel(what)))
}

/// Whether a program calls the function that takes user stacks.
pub(crate) fn takes_user_stacks(program: &Program) -> bool {
    program.code.iter().any(is_user_stack)
}

fn is_user_stack(instruction: &Instruction) -> bool {
    instruction.opcode == CALL && instruction.imm == op::USER_STACK as i32
}

/// What the kernel is given.
struct Image {
    code: Vec<bpf_insn>,
    /// The program and the functions that were appended to it, with their types.
    functions: Vec<bpf_func_info>,
    /// Where the types are; none for a program alone.
    btf: Option<i32>,
}

impl Image {
    fn link(code: &[Instruction], maps: &Maps, user_stack: Option<&Subprogram>) -> Image {
        let mut code = encode(code, maps);
        let function = |(at, kind)| bpf_func_info {
            insn_off: at,
            type_id: kind,
        };
        let Some(user_stack) = user_stack else {
            return Image {
                code,
                functions: Vec::new(),
                btf: None,
            };
        };
        let length = code.len() as u32;
        code.extend(user_stack.code.iter().copied().map(instruction));
        let appended = user_stack.functions.iter();
        let appended = appended.map(|(at, kind)| function((at + length, *kind)));
        Image {
            code,
            functions: std::iter::once(function((0, user_stack.caller_type)))
                .chain(appended)
                .collect(),
            btf: Some(user_stack.btf),
        }
    }
}

/// The kernel's form, with descriptors of maps for numbers of stores, and calls of the function that takes user
/// stacks, which follows the program.
fn encode(code: &[Instruction], maps: &Maps) -> Vec<bpf_insn> {
    /// What `src` says of a call of a function that is part of the program.
    const OWN_FUNCTION: u8 = 1;
    code.iter()
        .enumerate()
        .map(|(at, original)| {
            let mut instruction = *original;
            if is_user_stack(original) {
                instruction.src = OWN_FUNCTION;
                instruction.imm = (code.len() - at - 1) as i32;
            }
            if original.opcode == MAY_GIVE_UP && !loops_may_give_up() {
                instruction = Instruction::jump_imm(Jump::Always, 0, 0, 0);
            }
            let is_store = matches!(instruction.src, STORE | STORE_ADDRESS);
            if instruction.opcode == LOAD_64 && is_store {
                instruction.imm = maps
                    .descriptor(instruction.imm)
                    .expect("programs name existing stores");
            }
            self::instruction(instruction.encode())
        })
        .collect()
}

fn instruction(word: u64) -> bpf_insn {
    // SAFETY: an instruction is 8 bytes of which every combination is one.
    unsafe { std::mem::transmute::<[u8; 8], bpf_insn>(word.to_le_bytes()) }
}

fn end_of(log: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(log)
        .map(CStr::to_string_lossy)
        .unwrap_or_default();
    let start = text.len().saturating_sub(LOG_SHOWN);
    let start = (start..text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    text[start..].to_owned()
}
