"""The scaling rule of docs/recording-format.md, in plain loops: the oracle for `weighted_stacks`."""

import collections


def shares(samples):
    """What part of a sum belongs to which stack."""
    by_stack = collections.Counter()
    total = sum(row["weight_ns"] for row in samples)
    for row in samples:
        by_stack[row["stack"]] += row["weight_ns"] / total if total else 1 / len(samples)
    return by_stack or {None: 1.0}


class Weights:
    """`time[thread, state, reason, syscall, stack]` in ns, and which parts of the rule were used."""

    def __init__(self, recording):
        self.recording = recording
        self.time = collections.Counter()
        self.used = collections.Counter()
        self._add_running()
        self._add_waits()
        for thread, row in recording.threads.items():
            self._add(thread, "lost", "", "", None, row["lost_ns"])
        self.time = collections.Counter({key: ns for key, ns in self.time.items() if ns >= 0.5})

    def _add(self, thread, state, reason, syscall, stack, ns):
        self.time[thread, state, reason, syscall, stack] += ns

    def _add_running(self):
        recording = self.recording
        enough = 20 * recording.meta["period_ns"]
        pool_of = {}
        for thread, row in recording.threads.items():
            alone = row["running_ns"] >= enough
            pool_of[thread] = thread if alone else (row["process"], row["name"])
        samples = collections.defaultdict(list)
        for row in recording.tables["samples"]:
            if row["state"] == "running" and row["thread"] in pool_of:
                samples[pool_of[row["thread"]]].append(row)
        for thread, row in recording.threads.items():
            own = samples[pool_of[thread]]
            if row["running_ns"]:
                self.used["running alone" if pool_of[thread] == thread else "running pooled"] += 1
                self.used["running without a sample"] += not own
            for stack, share in shares(own).items():
                self._add(thread, "running", "", "", stack, row["running_ns"] * share)

    def _site_sums(self):
        """Blocked and runnable ns of every site, no more in all than its thread has."""
        recording = self.recording
        sums = {site: [0, 0] for site, row in recording.sites.items() if row["thread"] in recording.threads}
        for row in recording.tables["site_times"]:
            if row["site"] in sums:
                sums[row["site"]][0] += row["blocked_ns"]
                sums[row["site"]][1] += row["runnable_ns"]
        for column, name in enumerate(["blocked_ns", "runnable_ns"]):
            claimed = collections.Counter()
            for site, both in sums.items():
                claimed[recording.sites[site]["thread"]] += both[column]
            for site, both in sums.items():
                thread = recording.sites[site]["thread"]
                if claimed[thread] > recording.threads[thread][name]:
                    self.used["scaled down"] += 1
                    both[column] *= recording.threads[thread][name] / claimed[thread]
        return sums

    def _lenders(self, site):
        """Whose samples a site may use, best first."""
        row = self.recording.sites[site]
        thread = self.recording.threads[row["thread"]]
        place = (row["reason"], row["syscall"])
        return [
            ("own", site),
            ("name", thread["process"], thread["name"], place),
            ("process", thread["process"], place),
        ]

    def _add_waits(self):
        sums = self._site_sums()
        samples = collections.defaultdict(list)
        for row in self.recording.tables["samples"]:
            if row["site"] in sums:
                for lender in self._lenders(row["site"]):
                    samples[lender].append(row)
        known = collections.Counter()
        for site, (blocked, runnable) in sums.items():
            row = self.recording.sites[site]
            lender = next((lender for lender in self._lenders(site) if samples[lender]), ("nobody",))
            self.used["site's samples: " + lender[0]] += 1
            self.used["weights of 0"] += bool(samples[lender]) and not any(s["weight_ns"] for s in samples[lender])
            for stack, share in shares(samples[lender]).items():
                self._add(row["thread"], "blocked", row["reason"], row["syscall"], stack, blocked * share)
                self._add(row["thread"], "runnable", "", row["syscall"], stack, runnable * share)
            known[row["thread"], "blocked"] += blocked
            known[row["thread"], "runnable"] += runnable
        for thread, row in self.recording.threads.items():
            left = row["blocked_ns"] - known[thread, "blocked"]
            self.used["reason unknown"] += left > 1 and row["running_ns"] > 0
            self._add(thread, "blocked", "unknown", "", None, left)
            self._add(thread, "runnable", "", "", None, row["runnable_ns"] - known[thread, "runnable"])

    def sums(self, key):
        """Totals in ms by `key(thread row, state, reason, syscall, stack)`."""
        totals = collections.Counter()
        for (thread, *rest), ns in self.time.items():
            totals[key(self.recording.threads[thread], *rest)] += ns / 1e6
        return totals
