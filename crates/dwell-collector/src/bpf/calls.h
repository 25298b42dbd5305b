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
