/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What code is called that a Python executes: see struct CodeRecord. */
#pragma once
#include "send.h"

/* Code that was told, each where its identity leads: identity and process. What pushes out other code has it told again. */
#define TOLD_CODES 4096
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TOLD_CODES);
	__type(key, u32);
	__type(value, u64);
} told_codes SEC(".maps");

/* Copies one of the names; of one that is too long its beginning, or its end. Returns how many bytes. */
static __always_inline u32 copy_name(struct scratch *s, const struct Interpreter *p, u32 name, u8 *to, u32 most, bool its_end)
{
	u64 from = s->python.names[name] + p->text_at;
	u32 n;

	s->python.length = 0;
	bpf_probe_read_user(&s->python.length, 8, (void *)(s->python.names[name] + p->hash_at - 8));
	n = s->python.length < most ? s->python.length : most;
	if (its_end)
		from += s->python.length - n;
	return bpf_probe_read_user(to, n, (void *)from) ? 0 : n;
}

/* Of the code that was looked at last; bytes behind the names are those of earlier ones. */
__attribute__((noinline)) u64 send_code(struct scratch *s, const struct Interpreter *p)
{
	struct CodeRecord *r;

	if (!s || !p)
		return 1;
	r = &s->code;
	r->kind = RECORD_CODE;
	r->tgid = s->python.tgid;
	r->time = bpf_ktime_get_boot_ns();
	r->function_bytes = copy_name(s, p, 2, r->function, sizeof(r->function), false);
	r->file_bytes = copy_name(s, p, p->file_nth & 1, r->file, sizeof(r->file), true);
	send(RECORD_CODE, r, sizeof(*r));
	return 0;
}

/* Tells of code that is new. */
static __always_inline void tell_code(struct scratch *s, const struct Interpreter *p, u64 code, u32 identity)
{
	u32 slot = identity & (TOLD_CODES - 1);
	u64 told = (u64)identity << 32 | s->python.tgid, *last = bpf_map_lookup_elem(&told_codes, &slot);

	if (!last || *last == told)
		return;
	*last = told;
	s->code.code = code;
	s->code.identity = identity;
	send_code(s, p);
}
#define TELL_CODE tell_code
