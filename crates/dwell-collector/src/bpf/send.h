/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Sending records. */
#pragma once

static __always_inline u64 wakeup_flags(void)
{
	return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= config.ring_wakeup_bytes ? BPF_RB_FORCE_WAKEUP :
										   BPF_RB_NO_WAKEUP;
}

static __always_inline void send_with(u32 kind, void *record, u64 size, u64 flags)
{
	count(COUNTER_PRODUCED + kind, 1);
	if (bpf_ringbuf_output(&ring, record, size, flags))
		count(COUNTER_LOST + kind, 1);
}

static __always_inline void send(u32 kind, void *record, u64 size)
{
	send_with(kind, record, size, wakeup_flags());
}

/* A record that user space should see soon: it has to load mappings. A waking costs a µs or two. */
#define URGENT_GAP_NS 2000000
static u64 last_urgent;

static __always_inline void send_urgent(u32 kind, void *record, u64 size, u64 now)
{
	u64 last = last_urgent;

	if (now - last < URGENT_GAP_NS)
		return send(kind, record, size);
	last_urgent = now;
	send_with(kind, record, size, BPF_RB_FORCE_WAKEUP);
}
