//! Code at the very beginning of a merged file that the kernel starts where the stock program was to be started
//! (binfmt_misc, flags P, O and C), in whatever mount namespace.
//!
//! The arguments begin with two words too many, and the stock program comes as an open descriptor (`AT_EXECFD`). The
//! code takes the words away, also from what the kernel shows of them, and looks whether the stock program and the
//! libraries are, in this namespace, what was merged. A file is, when its state is as it was; where another file
//! has its path, size and build id decide. With others, under variables that name other libraries and with gained
//! rights, the stock program runs: by a copy in memory with a mark in its header, since by its own file it would lead
//! here again. A file with the mark has another beginning than every registered one.
//!
//! A start without a descriptor is one of the merged file itself.
use super::headers::Segment;
use super::image::{Image, X};
use super::{Merge, inside::Inside};
use crate::{FileState, Refusal};
use object::elf;

/// Where a header has its mark: `e_flags`, which neither the kernel nor glibc's loader looks at on this processor.
pub(crate) const MARK_AT: u64 = 48;
pub(crate) const MARK: [u8; 4] = *b"dwel";

/// What the kernel calls, and two functions for the comparison of what libc chooses: it is called by the first, which
/// closes the descriptor, and calls the second where something differs. Texts and a table follow.
const CODE: [u8; 999] = [
    0x48, 0x8d, 0x1d, 0x71, 0x04, 0x00, 0x00, // start: lea rbx, [rip + table]
    0x48, 0x8b, 0x0c, 0x24, // mov rcx, [rsp] ; argc
    0x4c, 0x8d, 0x74, 0xcc, 0x10, // lea r14, [rsp+rcx*8+16] ; envp
    0x4d, 0x89, 0xf5, // mov r13, r14
    0x49, 0x8b, 0x45, 0x00, // variable: mov rax, [r13]
    0x49, 0x83, 0xc5, 0x08, // add r13, 8
    0x48, 0x85, 0xc0, // test rax, rax
    0x75, 0xf3, // jne variable
    0x41, 0x83, 0xcc, 0xff, // or r12d, -1 ; no descriptor
    0x45, 0x31, 0xff, // xor r15d, r15d
    0x4c, 0x89, 0xef, // mov rdi, r13 ; auxv
    0x48, 0x8b, 0x07, // fact: mov rax, [rdi]
    0x48, 0x85, 0xc0, // test rax, rax
    0x74, 0x27, // je started
    0x83, 0xf8, 0x02, // cmp eax, 2 ; AT_EXECFD
    0x75, 0x0a, // jne flags
    0x44, 0x8b, 0x67, 0x08, // mov r12d, [rdi+8]
    0xc7, 0x07, 0x01, 0x00, 0x00, 0x00, // mov [rdi], 1 ; AT_IGNORE
    0x83, 0xf8, 0x08, // flags: cmp eax, 8 ; AT_FLAGS
    0x75, 0x04, // jne secure
    0x83, 0x67, 0x08, 0xfe, // and [rdi+8], -2 ; AT_FLAGS_PRESERVE_ARGV0
    0x83, 0xf8, 0x17, // secure: cmp eax, 23 ; AT_SECURE
    0x75, 0x04, // jne next
    0x44, 0x8b, 0x7f, 0x08, // mov r15d, [rdi+8]
    0x48, 0x83, 0xc7, 0x10, // next: add rdi, 16
    0xeb, 0xd1, // jmp fact
    0x45, 0x85, 0xe4, // started: test r12d, r12d
    0x79, 0x03, // jns registered
    0xff, 0x63, 0x08, // jmp [rbx+8] ; as a file of its own
    0x49, 0x89, 0xe0, // registered: mov r8, rsp
    0x48, 0x83, 0xe9, 0x02, // sub rcx, 2
    0x48, 0x89, 0x4c, 0x24, 0x10, // mov [rsp+16], rcx ; argc without the two words before
    0x48, 0x83, 0xc4, 0x10, // add rsp, 16
    0x48, 0x8d, 0xac, 0x24, 0x00, 0xfc, 0xff, 0xff, // lea rbp, [rsp-0x400]
    0x48, 0x85, 0xc9, // test rcx, rcx
    0x0f, 0x84, 0x82, 0x00, 0x00, 0x00, // je identity ; not even a name
    0x48, 0x8d, 0x73, 0x20, // lea rsi, [rbx+32]
    0x48, 0x89, 0xef, // mov rdi, rbp
    0xb9, 0x04, 0x00, 0x00, 0x00, // mov ecx, 4
    0xf3, 0x48, 0xa5, // rep movsq ; code and data
    0x31, 0xff, // xor edi, edi
    0xb8, 0x0c, 0x00, 0x00, 0x00, // mov eax, 12 ; brk
    0x0f, 0x05, // syscall
    0x48, 0x89, 0x45, 0x20, // mov [rbp+32], rax
    0x48, 0x89, 0x45, 0x28, // mov [rbp+40], rax
    0x4c, 0x89, 0x45, 0x30, // mov [rbp+48], r8 ; the stack
    0x48, 0x8b, 0x44, 0x24, 0x08, // mov rax, [rsp+8]
    0x48, 0x89, 0x45, 0x38, // mov [rbp+56], rax ; arguments
    0x48, 0x8b, 0x0c, 0x24, // mov rcx, [rsp]
    0x48, 0x8b, 0x3c, 0xcc, // mov rdi, [rsp+rcx*8]
    0xe8, 0xc3, 0x01, 0x00, 0x00, // call behind
    0x48, 0x89, 0x7d, 0x40, // mov [rbp+64], rdi
    0x48, 0x89, 0x7d, 0x48, // mov [rbp+72], rdi ; variables
    0x49, 0x8b, 0x45, 0xf0, // mov rax, [r13-16]
    0x48, 0x85, 0xc0, // test rax, rax
    0x74, 0x08, // je map
    0x48, 0x89, 0xc7, // mov rdi, rax
    0xe8, 0xaa, 0x01, 0x00, 0x00, // call behind
    0x48, 0x89, 0x7d, 0x50, // map: mov [rbp+80], rdi
    0x31, 0xc0, // xor eax, eax
    0x48, 0x89, 0x45, 0x58, // mov [rbp+88], rax
    0x89, 0x45, 0x60, // mov [rbp+96], eax
    0xff, 0xc8, // dec eax
    0x89, 0x45, 0x64, // mov [rbp+100], eax ; the same file
    0xbf, 0x23, 0x00, 0x00, 0x00, // mov edi, 35 ; prctl PR_SET_MM
    0xbe, 0x0e, 0x00, 0x00, 0x00, // mov esi, 14 ; PR_SET_MM_MAP
    0x48, 0x89, 0xea, // mov rdx, rbp
    0x41, 0xba, 0x68, 0x00, 0x00, 0x00, // mov r10d, 104
    0x45, 0x31, 0xc0, // xor r8d, r8d
    0xb8, 0x9d, 0x00, 0x00, 0x00, // mov eax, 157
    0x0f, 0x05, // syscall
    0x4c, 0x8d, 0x4b, 0x60, // identity: lea r9, [rbx+96] ; the program
    0x44, 0x89, 0xe7, // mov edi, r12d
    0x48, 0x8d, 0x35, 0x62, 0x03, 0x00, 0x00, // lea rsi, [rip + empty]
    0x48, 0x89, 0xea, // mov rdx, rbp
    0x41, 0xba, 0x00, 0x10, 0x00, 0x00, // mov r10d, 0x1000 ; AT_EMPTY_PATH
    0xb8, 0x06, 0x01, 0x00, 0x00, // mov eax, 262 ; newfstatat
    0x0f, 0x05, // syscall
    0x85, 0xc0, // test eax, eax
    0x0f, 0x85, 0x2c, 0x01, 0x00, 0x00, // jne other
    0xe8, 0x6c, 0x01, 0x00, 0x00, // call stamped
    0x74, 0x44, // je library
    0x48, 0x8d, 0x95, 0x00, 0x01, 0x00, 0x00, // lea rdx, [rbp+0x100]
    0xe8, 0x4a, 0x01, 0x00, 0x00, // call look
    0x85, 0xc0, // test eax, eax
    0x0f, 0x85, 0x11, 0x01, 0x00, 0x00, // jne other
    0x48, 0x8b, 0x45, 0x00, // mov rax, [rbp]
    0x48, 0x3b, 0x85, 0x00, 0x01, 0x00, 0x00, // cmp rax, [rbp+0x100]
    0x0f, 0x85, 0x00, 0x01, 0x00, 0x00, // jne other
    0x48, 0x8b, 0x45, 0x08, // mov rax, [rbp+8]
    0x48, 0x3b, 0x85, 0x08, 0x01, 0x00, 0x00, // cmp rax, [rbp+0x108]
    0x0f, 0x85, 0xef, 0x00, 0x00, 0x00, // jne other
    0x44, 0x89, 0xe7, // mov edi, r12d
    0xe8, 0x5c, 0x01, 0x00, 0x00, // call identified
    0x0f, 0x85, 0xe1, 0x00, 0x00, 0x00, // jne other
    0x41, 0x8b, 0x41, 0x28, // library: mov eax, [r9+40]
    0x49, 0x01, 0xc1, // add r9, rax
    0x41, 0x83, 0x79, 0x28, 0x00, // cmp [r9+40], 0
    0x74, 0x52, // je same
    0x48, 0x89, 0xea, // mov rdx, rbp
    0xe8, 0xfc, 0x00, 0x00, 0x00, // call look
    0x85, 0xc0, // test eax, eax
    0x0f, 0x85, 0xc3, 0x00, 0x00, 0x00, // jne other
    0xe8, 0x03, 0x01, 0x00, 0x00, // call stamped
    0x74, 0xdb, // je library
    0xbf, 0x9c, 0xff, 0xff, 0xff, // mov edi, -100 ; AT_FDCWD
    0x49, 0x8d, 0x71, 0x78, // lea rsi, [r9+120]
    0xba, 0x00, 0x00, 0x08, 0x00, // mov edx, 0x80000 ; O_RDONLY | O_CLOEXEC
    0xb8, 0x01, 0x01, 0x00, 0x00, // mov eax, 257 ; openat
    0x0f, 0x05, // syscall
    0x85, 0xc0, // test eax, eax
    0x0f, 0x88, 0x9f, 0x00, 0x00, 0x00, // js other
    0x89, 0xc7, // mov edi, eax
    0x57, // push rdi
    0xe8, 0x0c, 0x01, 0x00, 0x00, // call identified
    0x41, 0x0f, 0x94, 0xc0, // sete r8b
    0x5f, // pop rdi
    0xb8, 0x03, 0x00, 0x00, 0x00, // mov eax, 3 ; close
    0x0f, 0x05, // syscall
    0x45, 0x84, 0xc0, // test r8b, r8b
    0x75, 0xa5, // jne library
    0xe9, 0x81, 0x00, 0x00, 0x00, // jmp other
    0x45, 0x85, 0xff, // same: test r15d, r15d
    0x75, 0x57, // jne stock
    0x48, 0x8d, 0x3d, 0x06, 0x02, 0x00, 0x00, // lea rdi, [rip + preload]
    0xbe, 0x04, 0x00, 0x00, 0x00, // mov esi, 4 ; R_OK
    0xb8, 0x15, 0x00, 0x00, 0x00, // mov eax, 21 ; access
    0x0f, 0x05, // syscall
    0x85, 0xc0, // test eax, eax
    0x74, 0x40, // je stock
    0x49, 0xb8, 0x4c, 0x44, 0x5f, 0x50, 0x52, 0x45, 0x4c,
    0x4f, // movabs r8, 0x4f4c4552505f444c
    0x49, 0xb9, 0x4c, 0x44, 0x5f, 0x41, 0x55, 0x44, 0x49,
    0x54, // movabs r9, 0x54494455415f444c
    0x49, 0xba, 0x4c, 0x44, 0x5f, 0x4c, 0x49, 0x42, 0x52,
    0x41, // movabs r10, 0x415242494c5f444c
    0x4d, 0x89, 0xf5, // mov r13, r14
    0x49, 0x8b, 0x75, 0x00, // name: mov rsi, [r13]
    0x49, 0x83, 0xc5, 0x08, // add r13, 8
    0x48, 0x85, 0xf6, // test rsi, rsi
    0x74, 0x17, // je merged
    0x48, 0x8b, 0x06, // mov rax, [rsi]
    0x4c, 0x39, 0xc0, // cmp rax, r8
    0x74, 0x0a, // je stock
    0x4c, 0x39, 0xc8, // cmp rax, r9
    0x74, 0x05, // je stock
    0x4c, 0x39, 0xd0, // cmp rax, r10
    0x75, 0xe1, // jne name
    0xe8, 0xcb, 0x00, 0x00, 0x00, // stock: call become
    0x48, 0x8b, 0x0b, // merged: mov rcx, [rbx]
    0x41, 0x8d, 0x44, 0x24, 0x01, // lea eax, [r12+1]
    0x48, 0x85, 0xc9, // test rcx, rcx
    0x74, 0x04, // je close
    0x89, 0x01, // mov [rcx], eax ; until the choices are compared
    0xeb, 0x0a, // jmp go
    0x44, 0x89, 0xe7, // close: mov edi, r12d
    0xb8, 0x03, 0x00, 0x00, 0x00, // mov eax, 3
    0x0f, 0x05, // syscall
    0x31, 0xd2, // go: xor edx, edx
    0xff, 0x63, 0x10, // jmp [rbx+16]
    0xe8, 0xa6, 0x00, 0x00, 0x00, // other: call become
    0xbf, 0x02, 0x00, 0x00, 0x00, // mov edi, 2
    0x48, 0x8d, 0x35, 0x97, 0x01, 0x00, 0x00, // lea rsi, [rip + text]
    0xba, 0x76, 0x00, 0x00, 0x00, // mov edx, offset text_end-text
    0xb8, 0x01, 0x00, 0x00, 0x00, // mov eax, 1 ; write
    0x0f, 0x05, // syscall
    0xbf, 0x7e, 0x00, 0x00, 0x00, // mov edi, 126
    0xb8, 0xe7, 0x00, 0x00, 0x00, // mov eax, 231 ; exit_group
    0x0f, 0x05, // syscall
    0x83, 0xc9, 0xff, // behind: or ecx, -1
    0x31, 0xc0, // xor eax, eax
    0xf2, 0xae, // repne scasb
    0xc3, // ret
    0xbf, 0x9c, 0xff, 0xff, 0xff, // look: mov edi, -100 ; AT_FDCWD
    0x49, 0x8d, 0x71, 0x78, // lea rsi, [r9+120]
    0x45, 0x31, 0xd2, // xor r10d, r10d
    0xb8, 0x06, 0x01, 0x00, 0x00, // mov eax, 262 ; newfstatat
    0x0f, 0x05, // syscall
    0xc3, // ret
    0x48, 0x8b, 0x45, 0x00, // stamped: mov rax, [rbp]
    0x49, 0x3b, 0x01, // cmp rax, [r9]
    0x75, 0x26, // jne differs
    0x48, 0x8b, 0x45, 0x08, // mov rax, [rbp+8]
    0x49, 0x3b, 0x41, 0x08, // cmp rax, [r9+8]
    0x75, 0x1c, // jne differs
    0x48, 0x8b, 0x45, 0x30, // mov rax, [rbp+48]
    0x49, 0x3b, 0x41, 0x10, // cmp rax, [r9+16]
    0x75, 0x12, // jne differs
    0x48, 0x8b, 0x45, 0x68, // mov rax, [rbp+104]
    0x49, 0x3b, 0x41, 0x18, // cmp rax, [r9+24]
    0x75, 0x08, // jne differs
    0x48, 0x8b, 0x45, 0x70, // mov rax, [rbp+112]
    0x49, 0x3b, 0x41, 0x20, // cmp rax, [r9+32]
    0xc3, // differs: ret
    0x48, 0x8b, 0x45, 0x30, // identified: mov rax, [rbp+48]
    0x49, 0x3b, 0x41, 0x10, // cmp rax, [r9+16]
    0x75, 0xf5, // jne differs
    0x48, 0x8d, 0xb5, 0x00, 0x01, 0x00, 0x00, // lea rsi, [rbp+0x100]
    0x41, 0x8b, 0x51, 0x2c, // mov edx, [r9+44]
    0x4d, 0x8b, 0x51, 0x30, // mov r10, [r9+48]
    0xb8, 0x11, 0x00, 0x00, 0x00, // mov eax, 17 ; pread64
    0x0f, 0x05, // syscall
    0x41, 0x3b, 0x41, 0x2c, // cmp eax, [r9+44]
    0x75, 0xd9, // jne differs
    0x89, 0xc1, // mov ecx, eax
    0x48, 0x8d, 0xb5, 0x00, 0x01, 0x00, 0x00, // lea rsi, [rbp+0x100]
    0x49, 0x8d, 0x79, 0x38, // lea rdi, [r9+56]
    0xf3, 0xa6, // repe cmpsb
    0xc3, // ret
    0xbe, 0x11, 0x00, 0x00, 0x00, // become: mov esi, 0x11 ; MFD_CLOEXEC | MFD_EXEC
    0x48, 0x8d, 0x7b, 0x40, // create: lea rdi, [rbx+64]
    0xb8, 0x3f, 0x01, 0x00, 0x00, // mov eax, 319 ; memfd_create
    0x0f, 0x05, // syscall
    0x41, 0x89, 0xc1, // mov r9d, eax
    0x85, 0xc0, // test eax, eax
    0x79, 0x0c, // jns copy
    0x83, 0xfe, 0x01, // cmp esi, 1
    0x74, 0x7c, // je no
    0xbe, 0x01, 0x00, 0x00, 0x00, // mov esi, 1 ; kernels before 6.3
    0xeb, 0xe2, // jmp create
    0x44, 0x89, 0xcf, // copy: mov edi, r9d
    0x44, 0x89, 0xe6, // mov esi, r12d
    0x31, 0xd2, // xor edx, edx
    0x41, 0xba, 0x00, 0xf0, 0xff, 0x7f, // mov r10d, 0x7ffff000
    0xb8, 0x28, 0x00, 0x00, 0x00, // mov eax, 40 ; sendfile
    0x0f, 0x05, // syscall
    0x48, 0x85, 0xc0, // test rax, rax
    0x78, 0x51, // js failed
    0x75, 0xe4, // jne copy
    0x44, 0x89, 0xcf, // mov edi, r9d
    0x48, 0x8d, 0x35, 0xb0, 0x00, 0x00, 0x00, // lea rsi, [rip + mark]
    0xba, 0x04, 0x00, 0x00, 0x00, // mov edx, 4
    0x41, 0xba, 0x30, 0x00, 0x00, 0x00, // mov r10d, 48 ; e_flags
    0xb8, 0x12, 0x00, 0x00, 0x00, // mov eax, 18 ; pwrite64
    0x0f, 0x05, // syscall
    0x44, 0x89, 0xe7, // mov edi, r12d
    0xbe, 0x02, 0x00, 0x00, 0x00, // mov esi, 2 ; F_SETFD
    0xba, 0x01, 0x00, 0x00, 0x00, // mov edx, 1 ; FD_CLOEXEC
    0xb8, 0x48, 0x00, 0x00, 0x00, // mov eax, 72 ; fcntl
    0x0f, 0x05, // syscall
    0x44, 0x89, 0xcf, // mov edi, r9d
    0x48, 0x8d, 0x35, 0xfa, 0x00, 0x00, 0x00, // lea rsi, [rip + empty]
    0x48, 0x8d, 0x54, 0x24, 0x10, // lea rdx, [rsp+16]
    0x4d, 0x89, 0xf2, // mov r10, r14
    0x41, 0xb8, 0x00, 0x10, 0x00, 0x00, // mov r8d, 0x1000 ; AT_EMPTY_PATH
    0xb8, 0x42, 0x01, 0x00, 0x00, // mov eax, 322 ; execveat
    0x0f, 0x05, // syscall
    0x44, 0x89, 0xcf, // failed: mov edi, r9d
    0xb8, 0x03, 0x00, 0x00, 0x00, // mov eax, 3
    0x0f, 0x05, // syscall
    0xc3, // no: ret
    0xff, 0x15, 0xf0, 0x00, 0x00, 0x00, // compare: call [rip + table+24]
    0x48, 0x8b, 0x05, 0xd1, 0x00, 0x00, 0x00, // mov rax, [rip + table]
    0x8b, 0x38, // mov edi, [rax]
    0xff, 0xcf, // dec edi
    0x78, 0x07, // js compared
    0xb8, 0x03, 0x00, 0x00, 0x00, // mov eax, 3 ; close
    0x0f, 0x05, // syscall
    0x31, 0xc0, // compared: xor eax, eax
    0xc3, // ret
    0x48, 0x8b, 0x0d, 0xba, 0x00, 0x00, 0x00, // differently: mov rcx, [rip + table]
    0x8b, 0x01, // mov eax, [rcx]
    0xff, 0xc8, // dec eax
    0x79, 0x08, // jns late
    0x48, 0x8b, 0x0a, // mov rcx, [rdx]
    0x48, 0x8d, 0x72, 0x08, // lea rsi, [rdx+8]
    0xc3, // ret
    0x41, 0x89, 0xc4, // late: mov r12d, eax
    0x48, 0x8d, 0x1d, 0xa2, 0x00, 0x00, 0x00, // lea rbx, [rip + table]
    0x48, 0x89, 0xd4, // mov rsp, rdx
    0x48, 0x8b, 0x0c, 0x24, // mov rcx, [rsp]
    0x4c, 0x8d, 0x74, 0xcc, 0x10, // lea r14, [rsp+rcx*8+16]
    0xe9, 0x6f, 0xfe, 0xff, 0xff, // jmp other
];
/// Where the two functions are.
const COMPARE: u64 = 0x39a;
const DIFFERENTLY: u64 = 0x3b7;
/// What the code names by its distance, up to a multiple of 8 bytes: a path, the mark, a message, an empty path.
const TEXTS: &[u8; 145] = b"/etc/ld.so.preload\0dwel\
dwell: this program is another than the boosted one, and cannot be copied into memory to be run: dwell boost rollback\n\
\0\0\0\0";
const TABLE: usize = CODE.len() + TEXTS.len();
/// Offsets in the table, all but the last of words: where the descriptor is kept, one more than it, until the comparison;
/// where a start of the file itself goes on, and another one; the comparison; first and last address of the code, and of
/// the data; the copy's name; and the files, the program first.
const KEPT: usize = 0;
const ITSELF: usize = 8;
const MERGED: usize = 16;
const COMPARISON: usize = 24;
const BOUNDS: usize = 32;
const NAME: usize = 64;
const FILES: usize = 96;
/// Of a file: device, inode, size, seconds and nanoseconds of its change; bytes of all this and of the build id; where that
/// is in the file; it; the path. One of no length is the end.
const LENGTH: usize = 40;
const BUILD_ID: usize = 56;
const PATH: usize = 120;
const END: [u8; 48] = [0; 48];

/// The code with its table, for one file.
#[derive(Debug)]
pub(crate) struct Registered {
    at: u64,
    pub bytes: Vec<u8>,
}

impl Registered {
    /// For the image address `at`; none when the kernel is not to start the file. The descriptor is kept at `kept`, if it
    /// is.
    pub(crate) fn of(
        merge: &Merge<'_, '_>,
        at: u64,
        kept: Option<u64>,
    ) -> Result<Option<Self>, Refusal> {
        let Some(states) = merge.registered else {
            return Ok(None);
        };
        let program = &merge.closure.modules[0];
        let refuse = |path: &str, why: &str| Err(Refusal::unsupported(path, why));
        if merge.layout.loader.is_none() {
            return refuse(
                &program.path,
                "only with the loader in the file (level 3) its arguments can be put right before anything reads them",
            );
        }
        if program
            .elf
            .data()
            .get(MARK_AT as usize..)
            .unwrap_or_default()
            .starts_with(&MARK)
        {
            return refuse(&program.path, "it is a copy that dwell has made");
        }
        let dynamic = &program.dynamic;
        let mut paths = dynamic.rpath.iter().chain(&dynamic.runpath);
        if paths.any(|p| p.contains("$ORIGIN") || p.contains("${ORIGIN}")) {
            return refuse(
                &program.path,
                "it looks for libraries beside itself ($ORIGIN), which a copy in memory cannot",
            );
        }
        let mut bytes = [&CODE[..], TEXTS].concat();
        bytes.resize(TABLE + FILES, 0);
        for (index, _) in merge.layout.placed() {
            let module = &merge.closure.modules[index];
            let Some(state) = states.get(&module.path) else {
                return refuse(&module.path, "its state is not known");
            };
            let Some(id) = module.elf.build_id() else {
                return refuse(
                    &module.path,
                    "it has no build id, by which it would be known in a container",
                );
            };
            let offset = id.as_ptr().addr() - module.elf.data().as_ptr().addr();
            bytes.extend(file(state, (offset, id), &module.path));
        }
        bytes.extend(END);
        let name = program
            .path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .as_bytes();
        let name = &name[..name.len().min(FILES - NAME - 1)];
        bytes[TABLE + NAME..][..name.len()].copy_from_slice(name);
        let mut made = Registered { at, bytes };
        made.put(KEPT, kept.unwrap_or_default());
        Ok(Some(made))
    }

    fn put(&mut self, offset: usize, word: u64) {
        self.bytes[TABLE + offset..][..8].copy_from_slice(&word.to_le_bytes());
    }

    /// The comparison's beginning for the loader.
    pub(crate) fn compares(&self) -> u64 {
        self.at + COMPARE
    }

    /// What the comparison calls where something differs; it comes back only if the file was started itself.
    pub(crate) fn differently(&self) -> u64 {
        self.at + DIFFERENTLY
    }

    /// Leads to the comparison, and on to the code that knows of the loader, which is started here from now on.
    pub(crate) fn lead(&mut self, comparison: u64, inside: &mut Inside) {
        self.put(COMPARISON, comparison);
        self.put(MERGED, inside.start);
        self.put(ITSELF, std::mem::replace(&mut inside.entry, self.at));
    }

    /// Tells the code what the kernel has noted of these segments, and marks the header.
    pub(crate) fn tell(at: u64, image: &mut Image, segments: &[Segment]) {
        let loads = || segments.iter().filter(|s| s.kind == elf::PT_LOAD.0);
        let code = || loads().filter(|s| s.flags & X != 0);
        let bounds = [
            code().map(|s| s.at).min(),
            code().map(|s| s.at + s.file_size).max(),
            loads().map(|s| s.at).max(),
            loads().map(|s| s.at + s.file_size).max(),
        ];
        let words = bounds
            .iter()
            .flat_map(|b| b.unwrap_or_default().to_le_bytes());
        let words: Vec<u8> = words.collect();
        image.put(at + (TABLE + BOUNDS) as u64, &words);
        image.put(image.start + MARK_AT, &MARK);
    }

    /// Where it is.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }
}

/// An entry of the table.
fn file(state: &FileState, (offset, id): (usize, &[u8]), path: &str) -> Vec<u8> {
    let (seconds, ns) = state.changed;
    let words = [
        state.device,
        state.inode,
        state.size,
        seconds as u64,
        ns as u64,
    ];
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.extend([0; 4]);
    bytes.extend((id.len() as u32).to_le_bytes());
    bytes.extend((offset as u64).to_le_bytes());
    debug_assert_eq!(bytes.len(), BUILD_ID);
    bytes.extend(id);
    bytes.resize(PATH, 0);
    bytes.extend(path.as_bytes());
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let len = bytes.len() as u32;
    bytes[LENGTH..LENGTH + 4].copy_from_slice(&len.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::decoded::{branch_target, decode};

    /// Where an instruction leads or looks, as a distance from the code's begin.
    fn target(bytes: &[u8], at: u64) -> u64 {
        let all = decode(bytes, at).expect("instructions");
        let instruction = all[0].instruction;
        branch_target(&instruction).unwrap_or_else(|| instruction.ip_rel_memory_address())
    }

    /// The distances in the code are those of texts, table and functions.
    #[test]
    fn the_code_finds_what_follows_it() {
        assert_eq!(TABLE % 8, 0);
        assert_eq!(target(&CODE[..7], 0), TABLE as u64);
        assert_eq!(
            target(&CODE[COMPARE as usize..][..6], COMPARE),
            (TABLE + COMPARISON) as u64
        );
        let kept = target(&CODE[DIFFERENTLY as usize..][..7], DIFFERENTLY);
        assert_eq!(kept, (TABLE + KEPT) as u64);
        let texts: Vec<&[u8]> = [(0, 19), (19, 4), (23, 5), (TEXTS.len() - 4, 1)]
            .map(|(from, len)| &TEXTS[from..from + len])
            .to_vec();
        assert_eq!(
            texts,
            [&b"/etc/ld.so.preload\0"[..], &MARK, b"dwell", b"\0"]
        );
    }
}
