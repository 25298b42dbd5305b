//! A thread and what it does next.
use super::tally::Doing;
use crate::model::Class;
use crate::random::Random;
use std::collections::VecDeque;

/// Units whose work is put together while no lock is taken.
const MOST_UNITS: u32 = 4096;

/// A step of a program. Locks are meant by their instance (a shard).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    /// On a processor for so long, ns.
    Run(f64, Doing),
    /// Not on a processor for so long, ns.
    Away(f64),
    /// Take a lock.
    Acquire(usize),
    /// Look at it again, having been told that it is taken, and go to sleep if it is.
    Park(usize),
    /// Sleep, unless woken on the way there.
    Sleep(usize),
    /// Back on a processor, look whether what was wanted can be had.
    Resume,
    /// Let it go.
    Release(usize),
    /// So many units are done.
    Units(f64),
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a processor.
    On(usize),
    /// Waits for one.
    Ready,
    /// Asleep.
    Off,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub class: usize,
    pub place: Place,
    pub doing: Doing,
    /// Since when, ns.
    pub since: f64,
    /// When it began, or went on, with the current step, ns.
    pub began: f64,
    /// The instance it waits for, if it does.
    pub wants: Option<usize>,
    /// The instance that is its own or was handed to it.
    pub has: Option<usize>,
    /// Of the current step: what is left of it at full speed, ns; none while it spins for an unknown time.
    pub left: Option<f64>,
    /// How long it may go on spinning before it sleeps, ns.
    pub patience: Option<f64>,
    /// The processor it was on, or waited for, last.
    pub last_cpu: Option<usize>,
    /// Woken before it slept.
    pub woken: bool,
    pub steps: VecDeque<Step>,
    /// Time on processors, ns.
    pub ran_ns: f64,
    /// By visit of its class: the part of an acquisition that is due.
    due: Vec<f64>,
}

impl Thread {
    pub fn new(position: usize, class: usize, of: &Class, random: &mut Random) -> Thread {
        Thread {
            class,
            place: Place::Off,
            doing: Doing::Away,
            since: 0.0,
            began: 0.0,
            wants: None,
            has: None,
            left: None,
            patience: None,
            last_cpu: None,
            woken: false,
            steps: VecDeque::new(),
            ran_ns: position as f64,
            // Threads do not take their locks in step.
            due: of.visits.iter().map(|_| random.unit()).collect(),
        }
    }

    /// Plans what it does until it has taken a lock once more. `shards` are the first instance and the
    /// number of instances by lock.
    pub fn plan(&mut self, class: &Class, shards: &[(usize, usize)], random: &mut Random) {
        let (mut think, mut away, mut units) = (0.0, 0.0, 0);
        let mut taken = Vec::new();
        while taken.is_empty() && units < MOST_UNITS {
            units += 1;
            think += class.think.draw(random);
            away += class.away.draw(random);
            for (visit, due) in class.visits.iter().zip(&mut self.due) {
                *due += visit.per_unit;
                while *due >= 1.0 {
                    *due -= 1.0;
                    taken.push(visit);
                }
            }
        }
        let part = think / taken.len().max(1) as f64;
        if taken.is_empty() {
            self.steps.push_back(Step::Run(think, Doing::Think));
        }
        for visit in taken {
            let (first, count) = shards[visit.lock];
            let instance = first + random.below(count);
            self.steps.extend([
                Step::Run(part, Doing::Think),
                Step::Acquire(instance),
                Step::Run(visit.hold.draw(random), Doing::Hold),
            ]);
            let asleep = visit.asleep.draw(random);
            if asleep > 0.0 {
                self.steps.push_back(Step::Away(asleep));
            }
            self.steps.push_back(Step::Release(instance));
        }
        if away > 0.0 {
            self.steps.push_back(Step::Away(away));
        }
        self.steps.push_back(Step::Units(f64::from(units)));
    }
}
