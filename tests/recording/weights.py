"""The scaling rule of docs/recording-format.md, in plain loops: the oracle for `weighted_stacks`."""

import collections


def shares(samples, part=lambda row: row["weight_ns"]):
    """What part of a sum belongs to which stack."""
    for weight in [part, lambda row: row["weight_ns"], lambda row: 1]:
        by_stack = collections.Counter()
        for row in samples:
            by_stack[row["stack"]] += weight(row)
        if total := sum(by_stack.values()):
            return {stack: share / total for stack, share in by_stack.items()}
    return {None: 1.0}


class Weights:
    """`time[thread, state, reason, syscall, stack]` and, of the time running, `spun[thread, stack]` in ns;
    and which parts of the rule were used."""

    def __init__(self, recording):
        self.recording = recording
        self.time = collections.Counter()
        self.spun = collections.Counter()
        self.used = collections.Counter()
        self.departures = collections.defaultdict(collections.Counter)
        self.stays = {
            (row["site"], row["start_ns"] + row["blocked_ns"] + row["runnable_ns"]): row
            for row in recording.tables["slices"] if row["stack"] is not None
        }
        self.frames_of = {row["stack"]: row["frames"] for row in recording.tables["stacks"]}
        self.spinning = {row["frame"]: row["spinning"] for row in recording.tables["frames"]}
        self._add_waits()
        self._add_running()
        for thread, row in recording.threads.items():
            self._add(thread, "stolen", "", "", None, row["stolen_ns"])
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
        switching = self._switching(pool_of, samples)
        for thread, row in recording.threads.items():
            own = samples[pool_of[thread]]
            rest = row["running_ns"]
            if departures := self.departures[thread]:
                for stack, times in departures.items():
                    ns = switching[thread] * times / departures.total()
                    self._add(thread, "running", "", "", stack, ns)
                    rest -= ns
            if row["running_ns"]:
                self.used["running alone" if pool_of[thread] == thread else "running pooled"] += 1
                self.used["running without a sample"] += not own
                self.used["switching"] += rest < row["running_ns"]
            for stack, share in shares(own).items():
                self._add(thread, "running", "", "", stack, rest * share)
                if self._spins(stack):
                    self.spun[thread, stack] += rest * share
                    self.used["spinning"] += rest * share > 0

    def _spins(self, stack):
        """Whether the innermost frame of a stack spins."""
        frames = self.frames_of.get(stack) or [None]
        return self.spinning.get(frames[-1]) is True

    def _switching(self, pool_of, samples):
        """Running time of every thread where no stack can be taken."""
        threads, meta = self.recording.threads, self.recording.meta
        switches = {thread: row["voluntary_switches"] + row["involuntary_switches"] for thread, row in threads.items()}
        produced, lost = (meta[kind].get("running_stacks", 0) for kind in ["produced", "losses"])
        factor = produced / (produced - lost) if 0 < lost < produced else 1

        def remainder(members, rows):
            claimed = factor * sum(row["weight_ns"] for row in rows)
            variance = factor**2 * sum(row["weight_ns"] ** 2 for row in rows) + meta["period_ns"] ** 2
            return sum(threads[thread]["running_ns"] for thread in members) - claimed, variance

        ns, variance = remainder(threads, [row for rows in samples.values() for row in rows])
        each = min(ns / max(sum(switches.values()), 1), 50_000) if ns > 2 * variance**0.5 else 0
        result = {}
        for pool in set(pool_of.values()):
            members = [thread for thread in threads if pool_of[thread] == pool]
            expected = each * sum(switches[thread] for thread in members)
            own, variance = remainder(members, samples[pool])
            own_variance = (expected / 2) ** 2
            joined = (expected * variance + own * own_variance) / (variance + own_variance)
            joined = min(max(joined, 0), 2 * expected)
            for thread in members:
                share = switches[thread] / sum(switches[thread] for thread in members) if expected else 0
                result[thread] = min(joined * share, threads[thread]["running_ns"])
        return result

    def _stay(self, row):
        """Blocked ns and whole ns of the wait that a sample was taken of, if that is known."""
        stay = self.stays.get((row["site"], row["time_ns"]))
        whole = stay["blocked_ns"] + stay["runnable_ns"] if stay else 0
        self.used["split by its stay"] += whole > 0
        return (stay["blocked_ns"], whole) if whole else None

    def _blocked_part(self, row):
        stay = self._stay(row)
        return row["weight_ns"] * (stay[0] / stay[1] if stay else 1)

    def _runnable_part(self, row):
        stay = self._stay(row)
        return row["weight_ns"] * (1 - stay[0] / stay[1] if stay else 1)

    def _waits(self, row):
        stay = self._stay(row)
        return row["weight_ns"] / stay[1] if stay else 1

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
        counts = collections.Counter()
        for row in self.recording.tables["site_times"]:
            counts[row["site"]] += row["count"]
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
            for stack, share in shares(samples[lender], self._blocked_part).items():
                self._add(row["thread"], "blocked", row["reason"], row["syscall"], stack, blocked * share)
            for stack, share in shares(samples[lender], self._runnable_part).items():
                self._add(row["thread"], "runnable", "", row["syscall"], stack, runnable * share)
            for stack, share in shares(samples[lender], self._waits).items():
                if stack is not None:
                    self.departures[row["thread"]][stack] += counts[site] * share
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
