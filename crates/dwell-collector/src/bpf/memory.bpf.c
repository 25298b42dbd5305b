/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What dwell.bpf.c does, and the ledger of memory beside it. An object of its own: to look up the kernel's types
 * that only the ledger uses takes time at the start of each recording.
 */
#include "dwell.bpf.c"
#include "memory.h"
