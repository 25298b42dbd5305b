/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which system call a thread is in, also where it runs 32-bit code, whose calls have other numbers. */
#pragma once

/* Word of struct pt_regs that holds the code segment: by its place, as its name is another before Linux 6.9. */
#define REGS_CS 17
/* No system call. */
#define NR_NONE (-1)
/* That of dwell-abi's calls.rs. */
const volatile u16 calls_of_32[512] SEC(".rodata.calls") = CALLS_OF_32;

static __always_inline bool runs_32_bit_code(const struct pt_regs *regs)
{
	return unlikely((u16)((const u64 *)regs)[REGS_CS] == CODE_SEGMENT_32);
}

/* NR_NONE when it is in none: it came by a fault or an interrupt. */
static __always_inline i32 call_of(const struct pt_regs *regs)
{
	u64 nr = regs->orig_ax;

	if (nr > 0x7fff)
		return NR_NONE;
	if (runs_32_bit_code(regs) && nr < SAME_NUMBERS)
		return calls_of_32[nr & 511];
	return nr;
}

#define NR_POLL 7
#define NR_NANOSLEEP 35
#define NR_FUTEX 202
#define NR_RESTART_SYSCALL 219
#define NR_CLOCK_NANOSLEEP 230
#define CLOCK_TAI 11

/* The call that restart_syscall goes on with after a signal without a handler: a stop, a debugger. The kernel notes a
 * function of its own for it; what it keeps for that function tells as well, in a union. Futex and poll keep their first
 * argument, `first`, which the registers still have. Futex keeps its flags next, one above the lowest always among
 * them; poll has there whether it has a timeout, and a sleep half of an address, or 0. */
static __noinline i32 restarted_call(const struct task_struct *task, u64 first)
{
	u64 kept = (u64)BPF_CORE_READ(task, restart_block.futex.uaddr);
	u32 flags = BPF_CORE_READ(task, restart_block.futex.flags);
	bool clock = first <= CLOCK_TAI; /* the last one that a thread can sleep by */

	if (kept != first || (clock && flags != 1))
		return clock ? NR_CLOCK_NANOSLEEP : NR_NANOSLEEP;
	return flags > 1 ? NR_FUTEX : NR_POLL;
}
