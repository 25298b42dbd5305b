//! Chooses for each probe of a script the engine it runs in, and sets the engines up.
use crate::enabled::{ERROR, Enabled, Group, numbering};
use crate::engines::Engines;
use crate::error::TraceError;
use crate::inside::{Inside, Made, Survey};
use crate::kernel::Kernel;
use crate::kernel_types;
use crate::probes::{At, patched};
use crate::session::{Engine, Settings};
use crate::split::Sets;
use dwell_abi::program::Store;
use dwell_collector::clock_ns;
use dwell_script::codegen::{Generator, NAMES, leaves_records};
use dwell_script::typed::Script;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Engines with their programs.
pub(crate) struct Placing<'s> {
    pub(crate) engines: Engines,
    pub(crate) generator: Generator<'s>,
    /// Why probes are not inside.
    pub(crate) not_inside: BTreeMap<u32, String>,
}

/// A script's programs, and what they keep.
struct Programs<'s> {
    generator: Generator<'s>,
    made: Vec<(Group, Made)>,
    stores: Vec<Store>,
    memory: Vec<u8>,
    stamped: bool,
}

/// What is to be placed.
struct Task<'s, 'e> {
    script: &'s Script,
    settings: &'e Settings,
    probes: &'e Enabled,
}

/// Places all probes of a script.
pub(crate) fn place<'s>(
    script: &'s Script,
    settings: &Settings,
    probes: &Enabled,
) -> Result<Placing<'s>, TraceError> {
    let task = Task {
        script,
        settings,
        probes,
    };
    let programs = task.programs(false)?;
    match settings.engine {
        Engine::Kernel => task.all_in_kernel(programs, BTreeMap::new()),
        Engine::Process => task.all_inside(programs),
        Engine::Auto => task.split(programs),
    }
}

impl<'s> Task<'s, '_> {
    fn programs(&self, stamped: bool) -> Result<Programs<'s>, TraceError> {
        let probes = &self.probes.probes;
        let mut generator = Generator::new(self.script, &self.settings.limits);
        if stamped {
            generator.stamp_records();
        }
        if let Some((_, clauses)) = probes.get(&ERROR) {
            generator.on_errors(ERROR, clauses);
        }
        let mut made = Vec::new();
        for (group, numbers) in self.probes.groups(&mut generator) {
            let numbering = numbering(&group, &numbers);
            let program = generator.program(group.site, &numbering, &group.clauses)?;
            let members = numbers.iter().map(|n| (*n, probes[n].0.at.clone()));
            let made_of = Made {
                site: group.site,
                program,
                members: members.collect(),
            };
            made.push((group, made_of));
        }
        let mut stores = generator.stores();
        if let Store::Table { entries, .. } = &mut stores[NAMES as usize] {
            *entries = probes.len().max(1) as u32;
        }
        let memory = initial_memory(&generator)?;
        Ok(Programs {
            generator,
            made,
            stores,
            memory,
            stamped,
        })
    }

    fn kernel(
        &self,
        programs: &Programs<'_>,
        made: &[(Group, Made)],
    ) -> Result<Box<Kernel>, TraceError> {
        let Programs { stores, memory, .. } = programs;
        let buffer = self.settings.buffer;
        let kernel = Kernel::load(made, stores, memory, buffer, self.probes, self.script)?;
        Ok(Box::new(kernel))
    }

    fn inside(
        &self,
        programs: &Programs<'_>,
        survey: &Survey,
        made: Vec<(Group, Made)>,
    ) -> Result<Inside, TraceError> {
        let made = made.into_iter().map(|(_, made)| made).collect();
        let Programs { stores, memory, .. } = programs;
        Inside::new(survey, made, stores, memory, self.settings.buffer)
    }

    fn all_in_kernel(
        &self,
        programs: Programs<'s>,
        not_inside: BTreeMap<u32, String>,
    ) -> Result<Placing<'s>, TraceError> {
        let kernel = self.kernel(&programs, &programs.made)?;
        Ok(Placing {
            engines: Engines {
                kernel: Some(kernel),
                ..Engines::default()
            },
            generator: programs.generator,
            not_inside,
        })
    }

    /// Everything inside but for places that cannot be patched.
    fn all_inside(&self, programs: Programs<'s>) -> Result<Placing<'s>, TraceError> {
        let survey = survey(&programs)?;
        let is_place = |n: &u32| matches!(self.probes.probes[n].0.at, At::Code { .. });
        let is_left_out = |n: &u32| is_place(n) && survey.leaves_out(*n);
        if let Some((_, why)) = survey.reasons.iter().find(|(n, _)| !is_left_out(n)) {
            return Err(TraceError::NotInside(why.clone()));
        }
        let mut not_inside = survey.reasons.clone();
        loop {
            let made = part(&programs.made, |n| !not_inside.contains_key(&n));
            let mut left = made.iter().flat_map(|(_, made)| &made.members);
            if !left.any(|(n, _)| is_place(n)) {
                let why = not_inside.into_values().next().unwrap_or_default();
                return Err(TraceError::NotInside(why));
            }
            let inside = self.inside(&programs, &survey, made)?;
            let refused = inside.refused();
            not_inside.extend(refused.reasons.clone());
            // What is left out fires nowhere.
            if refused.partly {
                continue;
            }
            return Ok(Placing {
                engines: Engines {
                    inside: Some(Box::new(RefCell::new(inside))),
                    ..Engines::default()
                },
                generator: programs.generator,
                not_inside,
            });
        }
    }

    /// Each set of probes inside if all of it can be there. What cannot be patched shows only when it is tried; then
    /// it is tried again without it.
    fn split(&self, mut programs: Programs<'s>) -> Result<Placing<'s>, TraceError> {
        let survey = match survey(&programs) {
            Ok(survey) => survey,
            Err(TraceError::NotInside(why)) => {
                let not_inside = self.all_because(&why);
                return self.all_in_kernel(programs, not_inside);
            }
            Err(error) => return Err(error),
        };
        let mut sets = Sets::find(self.script, self.probes);
        let mut reasons = survey.reasons.clone();
        loop {
            let outside = self.outside(&mut sets, &reasons);
            if self.is_empty_but_for(&outside) {
                let not_inside = self.with_company(reasons, &outside);
                return self.all_in_kernel(programs, not_inside);
            }
            let stamped = self.both_record(&outside);
            if stamped != programs.stamped {
                programs = self.programs(stamped)?;
            }
            let within = part(&programs.made, |n| !outside.contains(&n));
            let inside = match self.inside(&programs, &survey, within) {
                Ok(inside) => inside,
                Err(TraceError::NotInside(why)) => {
                    let not_inside = self.all_because(&why);
                    return self.all_in_kernel(self.programs(false)?, not_inside);
                }
                Err(error) => return Err(error),
            };
            let refused = inside.refused();
            reasons.extend(refused.reasons.clone());
            let now = self.outside(&mut sets, &reasons);
            let alone = now.len() == outside.len() + refused.reasons.len();
            if refused.partly || !alone || self.both_record(&now) != programs.stamped {
                continue;
            }
            let of_kernel = part(&programs.made, |n| now.contains(&n));
            let probes = now.iter().map(|n| &self.probes.probes[n].0);
            // Whose places are ours now, or another's.
            if patched::check(probes).is_err() {
                drop(inside);
                let why = "a place of another probe would be overwritten";
                return self.all_in_kernel(self.programs(false)?, self.all_because(why));
            }
            let kernel = match of_kernel.is_empty() {
                true => None,
                false => Some(self.kernel(&programs, &of_kernel)?),
            };
            return Ok(Placing {
                engines: Engines {
                    kernel,
                    inside: Some(Box::new(RefCell::new(inside))),
                    stamped: programs.stamped,
                    ..Engines::default()
                },
                generator: programs.generator,
                not_inside: self.with_company(reasons, &now),
            });
        }
    }

    /// The probes that go to the kernel.
    fn outside(&self, sets: &mut Sets, reasons: &BTreeMap<u32, String>) -> BTreeSet<u32> {
        sets.with_theirs(reasons.keys().copied())
    }

    /// Whether no place in the code is left.
    fn is_empty_but_for(&self, outside: &BTreeSet<u32>) -> bool {
        let mut all = self.probes.probes.iter();
        !all.any(|(n, (probe, _))| matches!(probe.at, At::Code { .. }) && !outside.contains(n))
    }

    /// Whether probes of both engines leave records.
    fn both_record(&self, outside: &BTreeSet<u32>) -> bool {
        let records = |(_, clauses): &(_, Vec<usize>)| {
            clauses.iter().any(|c| leaves_records(self.script, *c))
        };
        let recording = self
            .probes
            .probes
            .iter()
            .filter(|(_, probe)| records(probe));
        let (there, here): (Vec<u32>, Vec<u32>) = recording
            .map(|(n, _)| *n)
            .partition(|n| outside.contains(n));
        !there.is_empty() && !here.is_empty()
    }

    /// Reasons for all: those that have none of their own go with others.
    fn with_company(
        &self,
        mut reasons: BTreeMap<u32, String>,
        outside: &BTreeSet<u32>,
    ) -> BTreeMap<u32, String> {
        for number in outside {
            let why = "it shares variables, or its function, with probes that cannot run inside";
            reasons.entry(*number).or_insert_with(|| why.into());
        }
        reasons
    }

    fn all_because(&self, why: &str) -> BTreeMap<u32, String> {
        let numbers = self.probes.probes.keys();
        numbers.map(|number| (*number, why.to_owned())).collect()
    }
}

fn survey(programs: &Programs<'_>) -> Result<Survey, TraceError> {
    let made: Vec<Made> = programs.made.iter().map(|(_, made)| made.clone()).collect();
    Inside::survey(&made, &programs.stores)
}

/// The programs with some of the probes; not those that have none left.
fn part(made: &[(Group, Made)], mut wanted: impl FnMut(u32) -> bool) -> Vec<(Group, Made)> {
    let mut part = made.to_vec();
    for (_, made) in &mut part {
        made.members.retain(|(number, _)| wanted(*number));
    }
    part.retain(|(_, made)| !made.members.is_empty());
    part
}

/// The script's memory with what programs learn from us.
fn initial_memory(generator: &Generator<'_>) -> Result<Vec<u8>, TraceError> {
    use dwell_script::codegen::control::{THREAD_POINTER, WALL_OFFSET};
    const SECOND: u64 = 1_000_000_000;
    let mut memory = generator.memory().to_vec();
    if generator.needs_thread_pointer() {
        let offset = kernel_types::thread_pointer_offset()?;
        memory[THREAD_POINTER as usize..][..8].copy_from_slice(&offset.to_ne_bytes());
    }
    // Both differ by whole seconds.
    let seconds = |clock| (clock_ns(clock) / SECOND) as i64;
    let ahead = (seconds(libc::CLOCK_REALTIME) - seconds(libc::CLOCK_TAI)) * SECOND as i64;
    memory[WALL_OFFSET as usize..][..8].copy_from_slice(&ahead.to_ne_bytes());
    Ok(memory)
}
