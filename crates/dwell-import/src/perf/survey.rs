//! The first look at a file's records: which events there are, and what they tell.
use super::file::{self, PerfFile};
use super::records::Record;
use super::weights::{Role, Roles, Seen};

/// What is seen when the records are first gone through.
pub struct Survey {
    /// Of each event.
    pub events: Vec<Seen>,
    /// Fixed periods, for samples that do not tell theirs.
    pub periods: Vec<u64>,
    /// Of all events.
    pub samples: u64,
    /// Records that the kernel had no room for.
    pub lost: u64,
    /// The first instant.
    pub start_ns: u64,
    /// The last one.
    pub end_ns: u64,
    /// There are records of switches.
    pub switch_records: bool,
    /// By event: a sample of the idle thread.
    pub idle: Vec<bool>,
    /// A symbol of the kernel, and where it was.
    pub anchor: Option<(String, u64)>,
    /// A sample does not tell its time.
    pub untimed: bool,
}

impl Survey {
    /// Nothing seen yet.
    pub fn new(file: &PerfFile) -> Self {
        let period = |e: &file::Event| if e.by_frequency { 1 } else { e.period };
        Survey {
            events: vec![Seen::default(); file.events.len()],
            periods: file.events.iter().map(period).collect(),
            samples: 0,
            lost: 0,
            start_ns: u64::MAX,
            end_ns: 0,
            switch_records: false,
            idle: vec![false; file.events.len()],
            anchor: None,
            untimed: false,
        }
    }

    /// Takes a record.
    pub fn see(&mut self, time_ns: u64, record: &Record<'_>, event: Option<usize>) {
        match (record, event) {
            (Record::Sample(sample), Some(event)) => {
                let seen = &mut self.events[event];
                seen.samples += 1;
                seen.periods += sample.period.unwrap_or(self.periods[event]) as f64;
                self.samples += 1;
                self.idle[event] |= sample.tid == 0;
                self.untimed |= time_ns == 0;
            }
            (Record::Left { .. } | Record::Got { .. }, _) => self.switch_records = true,
            (Record::Lost(lost), _) => self.lost = self.lost.saturating_add(*lost),
            (Record::Mapped(mapped), _) if mapped.pid == u32::MAX => {
                if let Some(symbol) = mapped.path.strip_prefix("[kernel.kallsyms]") {
                    self.anchor = Some((symbol.to_owned(), mapped.file_offset));
                }
                return;
            }
            _ => {}
        }
        // What perf tells of the time before has time 0.
        if time_ns > 0 {
            self.start_ns = self.start_ns.min(time_ns);
            self.end_ns = self.end_ns.max(time_ns);
        }
    }

    /// Whether tracepoints tell every switch of whole processors, so when threads get one and not only when
    /// they leave it.
    pub fn tells_of_processors(&self, file: &PerfFile, roles: &Roles) -> bool {
        let whole = ["-a", "--all-cpus", "-C", "--cpu"];
        let args = file.command_line.iter().take_while(|a| *a != "--");
        let asked = args.into_iter().any(|a| whole.contains(&a.as_str()));
        let mut switches = self.switch_events(roles);
        switches.any(|i| file.events[i].tells_each() && (asked || self.idle[i]))
    }

    /// The events of `sched:sched_switch` that have samples.
    fn switch_events(&self, roles: &Roles) -> impl Iterator<Item = usize> {
        let is_switch = |i: &usize| roles.roles[*i] == Role::Switch && self.events[*i].samples > 0;
        (0..roles.roles.len()).filter(is_switch)
    }

    /// What a person should know.
    pub fn notes(&self, file: &PerfFile, roles: &Roles, exact: bool, cut_off: bool) -> Vec<String> {
        let mut notes = roles.notes.clone();
        let leaves = |r: &Role| matches!(r, Role::Switch | Role::BeforeSwitch);
        let switches = roles.roles.iter().zip(&self.events);
        if !exact
            && self
                .switch_events(roles)
                .any(|i| !file.events[i].tells_each())
        {
            notes.push(
                "sched:sched_switch was sampled, as -F and -c do with all events, so waits have no length: give a clock its own frequency (-e cpu-clock/freq=99/ -e sched:sched_switch), or add --switch-events"
                    .into(),
            );
        } else if !exact && switches.clone().any(|(r, s)| leaves(r) && s.samples > 0) {
            notes.push(
                "the file tells when threads left a processor and not when they got one, so waits have no length: record with --switch-events, or the whole system (-a)"
                    .into(),
            );
        }
        if file.cut_short || cut_off {
            notes.push("the file was cut short: what perf had not written is not there".into());
        }
        if self.lost > 0 {
            notes.push(format!(
                "the kernel lost {} records for want of room (perf record -m makes room)",
                self.lost
            ));
        }
        notes
    }
}
