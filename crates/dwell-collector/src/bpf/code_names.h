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

/* How many characters a string has; 0: unknown. */
static __always_inline u64 length_of(struct scratch *s, const struct Interpreter *p, u64 string)
{
	s->python.length = 0;
	bpf_probe_read_user(&s->python.length, 8, (void *)(string + p->hash_at - 8));
	return s->python.length;
}

/* Of the code that was looked at last. */
__attribute__((noinline)) u64 send_code(struct scratch *s, const struct Interpreter *p, u64 code, u32 identity)
{
	struct CodeRecord *r;
	u64 from, length;
	u32 n;

	if (!s || !p)
		return 1;
	r = &s->code;
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = RECORD_CODE;
	r->tgid = s->python.tgid;
	r->time = bpf_ktime_get_boot_ns();
	r->code = code;
	r->identity = identity;
	from = s->python.names[2];
	length = length_of(s, p, from);
	from += p->text_at;
	n = length < sizeof(r->function) ? length : sizeof(r->function);
	if (!bpf_probe_read_user(r->function, n, (void *)from))
		r->function_bytes = n;
	from = s->python.names[0];
	length = length_of(s, p, from);
	from += p->text_at;
	n = sizeof(r->file);
	if (length > sizeof(r->file))
		from += length - sizeof(r->file);
	else
		n = length;
	if (!bpf_probe_read_user(r->file, n, (void *)from))
		r->file_bytes = n;
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
	send_code(s, p, code, identity);
}
#define TELL_CODE tell_code
