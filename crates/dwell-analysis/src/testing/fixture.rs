//! A large made-up recording that looks like a real one: a search server with its workers, storage
//! threads, a logger, an idle pool and a bystander.
use super::history::{Rng, Stay, renewal_samples};
use super::{MS, TablesBuilder};
use dwell_recording::rows::{SliceRow, state};
use dwell_recording::tables::Tables;

/// How large the recording is.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Length of the window.
    pub seconds: u64,
    /// Threads in all, at least 8.
    pub threads: u32,
    /// Mean distance between stacks, ns of thread time.
    pub period_ns: u64,
    /// Mean length of a stay in one state, ns.
    pub mean_stay_ns: u64,
}

impl Default for Scale {
    fn default() -> Scale {
        Scale {
            seconds: 10,
            threads: 24,
            period_ns: 10 * MS,
            mean_stay_ns: 2 * MS,
        }
    }
}

/// Waits of at least this length are kept one by one.
const LONG_WAIT_NS: u64 = 20 * MS;

/// A way for a thread to spend time.
struct Habit {
    /// `running`, `runnable` or a reason.
    what: &'static str,
    syscall: &'static str,
    /// Share of the stays.
    often: u64,
    /// Mean length against the scale's.
    length: f64,
    /// Outermost first; parted by `;`. `*` stands for a random descent into the program.
    stack: &'static str,
    /// Thread name, `!name` (not recorded), `[interrupt]`, or empty.
    waker: &'static str,
}

struct Role {
    process: &'static str,
    name: &'static str,
    habits: &'static [Habit],
}

const fn habit(
    what: &'static str,
    syscall: &'static str,
    often: u64,
    length: f64,
    stack: &'static str,
    waker: &'static str,
) -> Habit {
    Habit {
        what,
        syscall,
        often,
        length,
        stack,
        waker,
    }
}

const THREAD: &str = "clone3;start_thread";

const MAIN: Role = Role {
    process: "searchd",
    name: "searchd",
    habits: &[
        habit(
            "poll",
            "epoll_wait",
            60,
            3.0,
            "_start;__libc_start_main;main;searchd::EventLoop::run();epoll_wait;do_syscall_64_[k];do_epoll_wait_[k]",
            "!nginx",
        ),
        habit(
            "running",
            "",
            30,
            0.6,
            "_start;__libc_start_main;main;searchd::EventLoop::run();*",
            "",
        ),
        habit(
            "socket",
            "sendmsg",
            6,
            0.4,
            "_start;__libc_start_main;main;searchd::EventLoop::run();searchd::Connection::flush();sendmsg;do_syscall_64_[k];tcp_sendmsg_[k];sk_stream_wait_memory_[k]",
            "[softirq]",
        ),
        habit(
            "runnable",
            "",
            4,
            0.1,
            "_start;__libc_start_main;main;searchd::EventLoop::run();*",
            "",
        ),
    ],
};

const WORKER: Role = Role {
    process: "searchd",
    name: "worker-",
    habits: &[
        habit(
            "running",
            "",
            45,
            2.0,
            "clone3;start_thread;searchd::Worker::loop();searchd::Index::query(searchd::Query const&, std::vector<std::pair<unsigned long, float>, std::allocator<std::pair<unsigned long, float> > >&);*",
            "",
        ),
        habit(
            "lock",
            "futex",
            25,
            1.2,
            "clone3;start_thread;searchd::Worker::loop();searchd::Cache::get(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&);pthread_mutex_lock;__lll_lock_wait",
            "worker-1",
        ),
        habit(
            "io",
            "pread64",
            14,
            2.5,
            "clone3;start_thread;searchd::Worker::loop();searchd::Index::load(unsigned int);pread64;do_syscall_64_[k];vfs_read_[k];folio_wait_bit_common_[k]",
            "[irq]",
        ),
        habit(
            "fault",
            "",
            6,
            0.7,
            "clone3;start_thread;searchd::Worker::loop();searchd::Index::query(searchd::Query const&, std::vector<std::pair<unsigned long, float>, std::allocator<std::pair<unsigned long, float> > >&);searchd::Posting::next() :> searchd::Posting::decode();asm_exc_page_fault_[k];do_user_addr_fault_[k];filemap_fault_[k]",
            "[irq]",
        ),
        habit(
            "lock",
            "futex",
            4,
            9.0,
            "clone3;start_thread;searchd::Worker::loop();searchd::Writer::commit();pthread_cond_wait;__futex_abstimed_wait_common",
            "flusher",
        ),
        habit(
            "runnable",
            "",
            6,
            0.8,
            "clone3;start_thread;searchd::Worker::loop();*",
            "",
        ),
    ],
};

const FLUSHER: Role = Role {
    process: "searchd",
    name: "flusher",
    habits: &[
        habit(
            "io",
            "fsync",
            50,
            8.0,
            "clone3;start_thread;searchd::Flusher::run();fsync;do_syscall_64_[k];ext4_sync_file_[k];jbd2_log_wait_commit_[k]",
            "!jbd2/sda1-8",
        ),
        habit(
            "pipe",
            "read",
            30,
            6.0,
            "clone3;start_thread;searchd::Flusher::run();searchd::Flusher::next();read;do_syscall_64_[k];anon_pipe_read_[k]",
            "worker-2",
        ),
        habit(
            "running",
            "",
            20,
            1.0,
            "clone3;start_thread;searchd::Flusher::run();core::ptr::drop_in_place<alloc::vec::Vec<searchd::segment::Segment<alloc::sync::Arc<[u8]>>>>;*",
            "",
        ),
    ],
};

const POOL: Role = Role {
    process: "searchd",
    name: "pool-",
    habits: &[habit(
        "lock",
        "futex",
        1,
        4000.0,
        "clone3;start_thread;searchd::Pool::wait();pthread_cond_wait;__futex_abstimed_wait_common",
        "searchd",
    )],
};

const TIMER: Role = Role {
    process: "searchd",
    name: "stats",
    habits: &[
        habit(
            "sleep",
            "clock_nanosleep",
            1,
            500.0,
            "clone3;start_thread;searchd::Stats::run();clock_nanosleep;do_syscall_64_[k];hrtimer_nanosleep_[k]",
            "[timer]",
        ),
        habit(
            "running",
            "",
            1,
            0.3,
            "clone3;start_thread;searchd::Stats::run();*",
            "",
        ),
    ],
};

const SORT: Role = Role {
    process: "sort",
    name: "sort",
    habits: &[
        habit(
            "running",
            "",
            60,
            3.0,
            "_start;main;sort;[sort+0x8c10];[libc.so.6+0x14f2a0]",
            "",
        ),
        habit(
            "io",
            "write",
            30,
            2.0,
            "_start;main;write_out;write;do_syscall_64_[k];ext4_buffered_write_iter_[k];balance_dirty_pages_[k]",
            "[timer]",
        ),
        habit(
            "running",
            "",
            10,
            1.0,
            "cut no_unwind_info;[libzstd.so.1+0x91c4]",
            "",
        ),
    ],
};

/// Makes the recording; the same scale gives the same one.
pub fn fixture(scale: Scale) -> Tables {
    let mut make = Make {
        builder: TablesBuilder::new(),
        rng: Rng::new(7),
        scale,
    };
    make.builder.tables.meta.period_ns = scale.period_ns;
    make.builder.tables.meta.machine.cpus = 16;
    make.builder.tables.meta.target = "searchd --index /srv/index --workers 8".to_owned();
    let many = scale.threads.max(8) - 5;
    let pool = many / 3;
    let searchd = make.builder.process(MAIN.process);
    for (role, name) in [(&MAIN, "searchd"), (&FLUSHER, "flusher"), (&TIMER, "stats")] {
        make.thread(role, searchd, name);
    }
    for number in 1..=many - pool {
        make.thread(&WORKER, searchd, &format!("{}{number}", WORKER.name));
    }
    for number in 1..=pool {
        make.thread(&POOL, searchd, &format!("{}{number}", POOL.name));
    }
    for number in 0..2 {
        let sort = make
            .builder
            .process(&format!("sort{}", if number == 0 { "" } else { "-merge" }));
        make.thread(&SORT, sort, SORT.name);
    }
    make.finish()
}

struct Make {
    builder: TablesBuilder,
    rng: Rng,
    scale: Scale,
}

impl Make {
    fn thread(&mut self, role: &Role, process: u32, name: &str) {
        let thread = self.builder.thread(process, name);
        let window_ns = self.scale.seconds * 1_000_000_000;
        let mut stays = Vec::new();
        let mut lived = 0;
        while lived < window_ns {
            let place = self.pick(role.habits);
            let mean = self.scale.mean_stay_ns as f64 * role.habits[place].length;
            let ns = self.rng.exponential(mean).min(window_ns - lived);
            stays.push(Stay { place, ns });
            lived += ns;
        }
        let weights = self.weights(&stays);
        for (stay, weight) in stays.iter().zip(weights) {
            self.stay(thread, &role.habits[stay.place], stay.ns, weight);
        }
    }

    fn pick(&mut self, habits: &[Habit]) -> usize {
        let mut at = self.rng.below(habits.iter().map(|h| h.often).sum());
        for (place, habit) in habits.iter().enumerate() {
            if at < habit.often {
                return place;
            }
            at -= habit.often;
        }
        habits.len() - 1
    }

    /// By stay: the weight of its sample, where one was taken.
    fn weights(&mut self, stays: &[Stay]) -> Vec<Option<u64>> {
        let mut weights = vec![None; stays.len()];
        for (stay, weight_ns) in renewal_samples(stays, self.scale.period_ns, &mut self.rng) {
            weights[stay] = Some(weight_ns);
        }
        weights
    }

    fn stay(&mut self, thread: u32, habit: &Habit, ns: u64, weight: Option<u64>) {
        let start_ns = self.builder.now(thread);
        let stack = weight.is_some().then(|| self.stack(habit.stack));
        if habit.what == state::RUNNING {
            self.builder.ran(thread, ns);
            if let (Some(stack), Some(weight_ns)) = (stack, weight) {
                self.builder
                    .sample(thread, state::RUNNING, stack, None, weight_ns);
            }
            return;
        }
        let preempted = habit.what == state::RUNNABLE;
        let site_reason = if preempted { "" } else { habit.what };
        let site = self
            .builder
            .site(thread, site_reason, habit.syscall, habit.stack);
        if !preempted && habit.syscall == "futex" {
            let mutex = habit.stack.contains("mutex");
            let operation = if mutex { "wait" } else { "wait_bitset" };
            let address = 0x7000_0000_0000 + 0x40 * habit.stack.len() as u64;
            self.builder.on_futex(site, address, operation, false);
        }
        let runnable_ns = if preempted { ns } else { ns / 50 };
        self.builder.waited(site, ns - runnable_ns, runnable_ns, 1);
        if let (Some(stack), Some(weight_ns)) = (stack, weight) {
            let state = if preempted {
                state::RUNNABLE
            } else {
                state::BLOCKED
            };
            self.builder
                .sample(thread, state, stack, Some(site), weight_ns);
        }
        if stack.is_some() || ns >= LONG_WAIT_NS {
            let slice = SliceRow {
                thread,
                site,
                start_ns,
                blocked_ns: ns - runnable_ns,
                runnable_ns,
                stack,
                ..SliceRow::default()
            };
            self.slice(slice, habit.waker);
        }
    }

    fn slice(&mut self, mut slice: SliceRow, waker: &str) {
        match waker.strip_prefix('!') {
            Some(foreign) => {
                slice.waker_name = foreign.to_owned();
                slice.waker_tid = Some(311);
            }
            None if waker.starts_with('[') => slice.waker_name = waker.to_owned(),
            None if waker.is_empty() => {}
            None => {
                let process = self.builder.tables.threads[slice.thread as usize].process;
                let thread = self.builder.thread(process, waker);
                slice.waker_thread = Some(thread);
                slice.waker_tid = Some(self.builder.tables.threads[thread as usize].tid);
                slice.waker_name = waker.to_owned();
                let frames = format!("{THREAD};searchd::notify(searchd::Event);futex_wake");
                slice.waker_stack = Some(self.stack(&frames));
            }
        }
        self.builder.tables.slices.push(slice);
    }

    /// Replaces `*` by a random descent of up to 12 calls.
    fn stack(&mut self, drawn: &str) -> u32 {
        let Some(fixed) = drawn.strip_suffix('*') else {
            return self.builder.stack(&drawn.split(';').collect::<Vec<_>>());
        };
        let mut frames: Vec<String> = fixed
            .split(';')
            .filter(|f| !f.is_empty())
            .map(str::to_owned)
            .collect();
        let mut function = self.rng.below(3);
        for depth in 0..2 + self.rng.below(11) {
            frames
                .push(DESCENT[(function as usize + depth as usize * 3) % DESCENT.len()].to_owned());
            function = function / 2 + self.rng.below(2);
        }
        self.builder
            .stack(&frames.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn finish(mut self) -> Tables {
        let meta = &mut self.builder.tables.meta;
        meta.produced.insert("samples".to_owned(), 100_000);
        meta.produced.insert("waits".to_owned(), 2_000_000);
        meta.losses.insert("samples".to_owned(), 12);
        meta.recorder.cpu_ns = self.scale.seconds * 6 * MS;
        meta.recorder.peak_rss_bytes = 41 << 20;
        meta.exit_code = Some(0);
        self.builder.tables
    }
}

/// Functions of the made-up program.
const DESCENT: [&str; 12] = [
    "searchd::Query::parse(std::basic_string_view<char, std::char_traits<char> >) :> searchd::lex(char const*&)",
    "searchd::Scorer<searchd::Bm25, searchd::Posting::Iterator>::score(unsigned int) const",
    "<searchd::rank::TopK<f32> as core::iter::traits::iterator::Iterator>::next",
    "std::__introsort_loop<__gnu_cxx::__normal_iterator<std::pair<unsigned long, float>*, std::vector<std::pair<unsigned long, float> > >, long, __gnu_cxx::__ops::_Iter_less_iter>",
    "memcpy",
    "searchd::Posting::advance(unsigned int)",
    "ZSTD_decompressBlock_internal",
    "malloc",
    "searchd::simd::intersect_avx2(unsigned int const*, unsigned int const*, unsigned long)",
    "_int_malloc",
    "searchd::Posting::next() :> searchd::Posting::decode()",
    "[libzstd.so.1+0x7a330]",
];
