/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* When the recording begins and ends. */
#pragma once

/* What is accounted, ns of CLOCK_BOOTTIME; closed until user space opens it. It may open in the future:
 * threads are adopted before, one after the other, and all of them begin with the window. */
struct {
	u64 start, end;
} window SEC(".data.window");

/* An instant, or the edge of the window that is nearer to it. */
static __always_inline u64 in_window(u64 time)
{
	if (time > window.end)
		return window.end;
	return time < window.start ? window.start : time;
}

static __always_inline u64 window_now(void)
{
	return in_window(bpf_ktime_get_boot_ns());
}

/* Whether the window has yet to open, or is closed, at an instant by window_now(). */
static __always_inline bool window_ahead(u64 now)
{
	return now == window.start;
}

static __always_inline bool window_over(u64 now)
{
	return now == window.end;
}
