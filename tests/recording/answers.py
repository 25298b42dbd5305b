"""The answers that the queries must give, computed in plain loops."""

import collections

# Queries that stop after so many rows, and the column that is largest first.
LIMITED = {"hottest_functions": (30, "self_ms"), "hottest_waits": (30, "blocked_ms")}


def longest_first(slice):
    """The order of waits in queries."""
    return (-slice["blocked_ns"], slice["start_ns"], slice["thread"])


def slept(thread):
    """Whether a thread never ran."""
    switches = thread["voluntary_switches"] + thread["involuntary_switches"]
    return thread["blocked_ns"] > 0 and thread["running_ns"] == 0 and switches == 0


def woken(slice):
    """When a wait ended."""
    return slice["start_ns"] + slice["blocked_ns"]


def waits_by_word(recording):
    """By process and address of a futex word: number of waits, and ns waited."""
    words = {row["futex"]: (row["process"], row["address"]) for row in recording.tables["futexes"]}
    sums = {}
    for row in recording.tables["site_times"]:
        futex = recording.sites[row["site"]]["futex"]
        if futex is not None:
            count, ns = sums.get(words[futex], (0, 0))
            sums[words[futex]] = (count + row["count"], ns + row["blocked_ns"])
    return sums


def chains(recording):
    """The ranks of the waits in the chains behind the 20 longest waits that threads ended."""
    waits = sorted((row for row in recording.tables["slices"] if row["blocked_ns"] > 0), key=longest_first)
    by_thread = collections.defaultdict(list)
    for rank, wait in enumerate(waits, start=1):
        by_thread[wait["thread"]].append((rank, wait))
    ended_by_threads = [(rank, wait) for rank, wait in enumerate(waits, start=1) if wait["waker_thread"] is not None]
    found = []
    for rank, wait in ended_by_threads[:20]:
        chain = [rank]
        while len(chain) < 4 and wait["waker_thread"] is not None:
            during = [
                (woken(other), -other_rank, other)
                for other_rank, other in by_thread[wait["waker_thread"]]
                if wait["start_ns"] < woken(other) <= woken(wait)
            ]
            if not during:
                break
            _, negative_rank, wait = max(during, key=lambda item: item[:2])
            chain.append(-negative_rank)
        found.append(chain)
    return found


def decade(ns):
    """The power of ten, in us, that a time reaches."""
    return 10.0 ** (len(str(ns)) - 4)


def self_time(recording, weights):
    """Running time by leaf function, for functions that were a leaf or not."""
    totals = collections.Counter()
    for (_, state, _, _, stack), ns in weights.time.items():
        if state == "running":
            functions = recording.names.functions[stack]
            totals[functions[-1],] += ns / 1e6
            for function in functions:
                totals[function,] += 0
    return totals


def total_time(recording, weights):
    """Running time by function anywhere in the stack."""
    totals = collections.Counter()
    for (_, state, _, _, stack), ns in weights.time.items():
        if state == "running":
            for function in set(recording.names.functions[stack]):
                totals[function,] += ns / 1e6
    return totals


def spun(recording, weights):
    """Time spent spinning by process, thread name, leaf function and its caller."""
    totals = collections.Counter()
    for (thread, stack), ns in weights.spun.items():
        row = recording.threads[thread]
        caller, function = ([""] + recording.names.functions[stack])[-2:]
        totals[recording.processes[row["process"]]["pid"], row["name"], function, caller] += ns / 1e6
    return totals


def kept_waits(recording, key, value):
    """Sums over the waits kept one by one, by `key(slice, site)`."""
    totals = collections.Counter()
    for slice in recording.tables["slices"]:
        if slice["blocked_ns"] > 0:
            totals[key(slice, recording.sites[slice["site"]])] += value(slice)
    return totals


def site_sums(recording, key, column):
    """Sums over `site_times` in ms, by `key(reading, site, thread)`."""
    totals = collections.Counter()
    for row in recording.tables["site_times"]:
        site = recording.sites[row["site"]]
        totals[key(row, site, recording.threads[site["thread"]])] += row[column] / 1e6
    return totals


def sums(recording, weights):
    """Every query that is a table of sums: name, columns of key and value, the sums."""
    process = lambda thread: recording.processes[thread["process"]]
    folded = recording.names.folded
    waker = lambda slice: slice["waker_name"] if slice["waker_thread"] is None else recording.threads[slice["waker_thread"]]["name"]
    reason = lambda site: site["reason"] or "[preempted]"
    start = recording.meta["start_ns"]

    yield "time_by_state", ["process", "state", "reason", "ms"], weights.sums(
        lambda thread, state, reason, *_: (thread["process"], state, reason))
    yield "hottest_functions", ["function", "self_ms"], self_time(recording, weights)
    yield "hottest_functions", ["function", "total_ms"], total_time(recording, weights)
    yield "spinning", ["pid", "thread_name", "function", "caller", "spun_ms"], spun(recording, weights)
    waits = weights.sums(lambda thread, state, reason, syscall, stack: (
        state, process(thread)["name"], thread["name"], reason, syscall, folded(stack)))
    yield "hottest_waits", ["process", "thread_name", "reason", "syscall", "folded", "blocked_ms"], {
        key[1:]: ms for key, ms in waits.items() if key[0] == "blocked"}
    yield "wakers", ["waiter", "reason", "waker", "blocked_ms"], kept_waits(
        recording,
        lambda slice, site: (recording.threads[slice["thread"]]["name"], site["reason"], waker(slice) or "[nobody]"),
        lambda slice: slice["blocked_ns"] / 1e6)
    yield "wakers", ["waits"], {(): sum(slice["blocked_ns"] > 0 for slice in recording.tables["slices"])}
    yield "scheduler_latency", ["tid", "thread_name", "runnable_ms"], {
        (row["tid"], row["name"]): row["runnable_ns"] / 1e6 for row in recording.threads.values()}
    for column in ["blocked", "runnable"]:
        yield "sites", ["tid", "reason", "syscall", "pc", f"{column}_ms"], site_sums(
            recording,
            lambda row, site, thread: (thread["tid"], reason(site), site["syscall"], f"0x{site['pc']:x}"),
            f"{column}_ns")
        yield "timeline", ["second", "reason", f"{column}_ms"], site_sums(
            recording, lambda row, site, thread: ((row["time_ns"] - start) // 10**9, reason(site)), f"{column}_ns")
    for column, value in [("waits", lambda slice: 1), ("blocked_ms", lambda slice: slice["blocked_ns"] / 1e6)]:
        yield "waits_histogram", ["reason", "at_least_us", column], kept_waits(
            recording, lambda slice, site: (site["reason"], decade(slice["blocked_ns"])), value)
    ends = weights.sums(lambda thread, state, reason, syscall, stack: (
        "on CPU" if state == "running" else "off CPU", recording.names.ends[stack]))
    yield "stack_ends", ["place", "stack_end", "ms"], ends
    lines = weights.sums(lambda thread, state, reason, syscall, stack: (
        f"{process(thread)['name']};{thread['name']};{folded(stack)};[{state}{' ' + reason if reason else ''}]",))
    yield "folded", ["stack", "ns"], {key: ms * 1e6 for key, ms in lines.items()}
