//! Stacks taken by the documented rule and weighed by d/π(d) estimate every place's time without bias,
//! whatever the mix of short and long waits.
use dwell_analysis::Analysis;
use dwell_analysis::names::StackRef;
use dwell_analysis::testing::{Rng, Stay, TablesBuilder, renewal_samples};
use dwell_recording::tables::Tables;

const PERIOD_NS: u64 = 10_000_000;
const HISTORIES: u64 = 6000;

/// Mean lengths of the waits at each place, ns: far shorter than the period up to far longer.
const MEAN_NS: [f64; 5] = [30e3, 900e3, 6e6, 12e6, 80e6];
/// How often each place is visited.
const OFTEN: [u64; 5] = [600, 60, 12, 6, 1];

fn history(rng: &mut Rng) -> Vec<Stay> {
    let visits: u64 = OFTEN.iter().sum();
    (0..1200)
        .map(|_| {
            let mut at = rng.below(visits);
            let place = OFTEN.iter().position(|often| {
                let here = at < *often;
                at = at.saturating_sub(*often);
                here
            });
            let place = place.unwrap_or(OFTEN.len() - 1);
            Stay {
                place,
                ns: rng.exponential(MEAN_NS[place]),
            }
        })
        .collect()
}

#[test]
fn estimates_lie_within_their_confidence_interval() {
    let mut differences = vec![Vec::new(); MEAN_NS.len()];
    let mut truth = vec![0.0; MEAN_NS.len()];
    for seed in 0..HISTORIES {
        let mut rng = Rng::new(seed);
        let stays = history(&mut rng);
        let mut error = vec![0.0; MEAN_NS.len()];
        for stay in &stays {
            error[stay.place] -= stay.ns as f64;
            truth[stay.place] += stay.ns as f64;
        }
        for (position, weight_ns) in renewal_samples(&stays, PERIOD_NS, &mut rng) {
            error[stays[position].place] += weight_ns as f64;
        }
        for (place, error) in error.into_iter().enumerate() {
            differences[place].push(error);
        }
    }
    for (place, errors) in differences.iter().enumerate() {
        let n = errors.len() as f64;
        let mean = errors.iter().sum::<f64>() / n;
        let deviation = (errors.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        let standard_error = deviation / n.sqrt();
        assert!(
            mean.abs() < 3.5 * standard_error,
            "place {place}: off by {mean:.0} ns, standard error {standard_error:.0}"
        );
        // The interval is narrow enough to notice a bias of 3 %.
        assert!(
            standard_error < 0.01 * truth[place] / n,
            "place {place}: test too weak"
        );
    }
}

#[test]
fn the_wrong_weight_would_be_noticed() {
    // Weighing every taken stay by its length alone underestimates short waits grossly.
    let (mut estimate, mut truth) = (0u64, 0u64);
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let stays = history(&mut rng);
        truth += stays
            .iter()
            .filter(|s| s.place == 0)
            .map(|s| s.ns)
            .sum::<u64>();
        for (position, _) in renewal_samples(&stays, PERIOD_NS, &mut rng) {
            if stays[position].place == 0 {
                estimate += stays[position].ns;
            }
        }
    }
    assert!(estimate < truth / 10);
}

/// The exact sum of a site, divided among its stacks by the weights of their samples, comes out right
/// for each stack: one site whose waits are mostly short from `f` and rarely long from `g`.
#[test]
fn scaled_profiles_divide_a_site_as_it_was() {
    let (mut scaled, mut truth) = ([0u64; 2], [0u64; 2]);
    let mut shares = Vec::new();
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let stays: Vec<Stay> = (0..3000)
            .map(|_| {
                let long = rng.below(50) == 0;
                let mean = if long { 60e6 } else { 400e3 };
                Stay {
                    place: usize::from(long),
                    ns: rng.exponential(mean),
                }
            })
            .collect();
        let (estimate, exact) = divided(&stays, &mut rng);
        shares.push(estimate[0] as f64 / (estimate[0] + estimate[1]) as f64);
        for place in 0..2 {
            scaled[place] += estimate[place];
            truth[place] += exact[place];
        }
        assert_eq!(
            estimate.iter().sum::<u64>(),
            exact.iter().sum::<u64>(),
            "closure"
        );
    }
    let share = |sums: [u64; 2]| sums[0] as f64 / (sums[0] + sums[1]) as f64;
    let n = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / n;
    let deviation = (shares.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    // The truth varies from history to history too, hence a wide factor; a ratio of two unbiased sums is
    // itself biased by about 1/samples, hence the constant.
    let allowed = 4.0 * deviation / n.sqrt() + 0.002;
    let error = (share(scaled) - share(truth)).abs();
    assert!(
        error < allowed,
        "share of f: {} for {}, allowed {allowed}",
        share(scaled),
        share(truth)
    );
    assert!(allowed < 0.02, "test too weak: {allowed}");
}

/// What the profile says of each of the first stacks.
fn estimated<const STACKS: usize>(tables: &Tables) -> [u64; STACKS] {
    let mut estimate = [0; STACKS];
    for entry in Analysis::of(tables).profile.entries {
        if let StackRef::Taken(stack) = entry.stack {
            estimate[stack as usize] += entry.weight_ns;
        }
    }
    estimate
}

/// (what the profile says, what was) of each of two stacks.
fn divided(stays: &[Stay], rng: &mut Rng) -> ([u64; 2], [u64; 2]) {
    let mut builder = TablesBuilder::new();
    let process = builder.process("demo");
    let thread = builder.thread(process, "main");
    let site = builder.site(thread, "lock", "futex", "");
    let stacks = [builder.stack(&["main", "f"]), builder.stack(&["main", "g"])];
    let mut exact = [0; 2];
    for stay in stays {
        exact[stay.place] += stay.ns;
        builder.waited(site, stay.ns, 0, 1);
    }
    for (position, weight_ns) in renewal_samples(stays, PERIOD_NS, rng) {
        builder.sample(
            thread,
            "blocked",
            stacks[stays[position].place],
            Some(site),
            weight_ns,
        );
    }
    (estimated(&builder.tables), exact)
}

/// Processes of one name, each too short to be sampled for sure: their time by stack comes out right in all, though most
/// of them have no sample of their own.
#[test]
fn short_processes_of_one_name_stand_for_each_other() {
    let (mut scaled, mut truth) = ([0u64; 3], [0u64; 3]);
    for seed in 0..200 {
        let (estimate, exact) = of_short_processes(&mut Rng::new(seed));
        assert_eq!(
            estimate.iter().sum::<u64>(),
            exact.iter().sum::<u64>(),
            "closure"
        );
        for stack in 0..3 {
            scaled[stack] += estimate[stack];
            truth[stack] += exact[stack];
        }
    }
    for (scaled, truth) in scaled.iter().zip(&truth) {
        let ratio = *scaled as f64 / *truth as f64;
        assert!((0.98..1.02).contains(&ratio), "{scaled} for {truth}");
    }
}

/// What the profile says, and what was, of three stacks: short processes begin at one and end at another, some of middling
/// length are at the third all the time, as is a long one. They are sampled every ten milliseconds, at instants that do not
/// depend on them.
fn of_short_processes(rng: &mut Rng) -> ([u64; 3], [u64; 3]) {
    const PROCESSES: u64 = 600;
    const MIDDLING: u64 = 100;
    const LONG_NS: u64 = 2_000_000_000;
    let mut builder = TablesBuilder::new();
    let stacks = ["begin", "end", "middling"].map(|f| builder.stack(&["main", f]));
    let mut exact = [0; 3];
    for number in 0..PROCESSES {
        let process = builder.process(&number.to_string());
        builder.tables.processes[process as usize].name = "job".to_owned();
        let thread = builder.thread(process, "job");
        let stays = match number {
            0 => vec![(2, LONG_NS)],
            1..=MIDDLING => vec![(2, rng.exponential(8e6))],
            _ => vec![(0, rng.exponential(1.2e6)), (1, rng.exponential(0.6e6))],
        };
        let mut cut = rng.below(PERIOD_NS);
        for (stack, ns) in stays {
            exact[stack] += ns;
            builder.ran(thread, ns);
            while cut < ns {
                builder.sample(thread, "running", stacks[stack], None, PERIOD_NS);
                cut += PERIOD_NS;
            }
            cut -= ns;
        }
    }
    (estimated(&builder.tables), exact)
}
