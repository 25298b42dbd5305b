//! The thread that delivers what waits.
use super::status::Board;
use dwell_delivery::spool::{SpoolError, Waiting};
use dwell_delivery::{Backoff, Client, DeliveryError, Destination, Minds, Parcel, Service, Spool};
use dwell_recording::Recording;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// When nothing is due, nothing is done for so long.
const IDLE: Duration = Duration::from_secs(3600);

/// So often a recording is tried that a server perhaps minds: for some ten minutes.
const MOST_DOUBTS: u32 = 10;

/// Delivers.
pub struct Courier {
    wake: Sender<()>,
    thread: JoinHandle<()>,
}

impl Courier {
    /// Starts the thread.
    pub fn start(
        spool: &Arc<Spool>,
        destinations: Vec<Destination>,
        service: Service,
        told: &Board,
    ) -> io::Result<Self> {
        let (wake, woken) = channel();
        let work = Work {
            spool: Arc::clone(spool),
            routes: destinations.into_iter().map(Route::to).collect(),
            service,
            told: told.clone(),
            client: Client::default(),
        };
        let deliver = move || work.run(&woken);
        let thread = Builder::new().name("courier".into()).spawn(deliver)?;
        let courier = Courier { wake, thread };
        // What an earlier agent left.
        courier.wake();
        Ok(courier)
    }

    /// Something more waits.
    pub fn wake(&self) {
        // A thread that has ended tells so when it is joined.
        let _ = self.wake.send(());
    }

    /// Tries everything once more, and ends.
    pub fn finish(self) {
        drop(self.wake);
        if self.thread.join().is_err() {
            eprintln!("dwell: delivering ended by a defect; what waits stays in the spool");
        }
    }
}

/// The way to a destination.
struct Route {
    to: Destination,
    name: String,
    backoff: Backoff,
    /// Since when it fails.
    failing: Option<Instant>,
    /// Not to be tried before.
    next: Instant,
    /// How often it was in doubt about which recording.
    doubts: (u32, String),
}

impl Route {
    fn to(to: Destination) -> Self {
        Route {
            name: to.to_string(),
            to,
            backoff: Backoff::default(),
            failing: None,
            next: Instant::now(),
            doubts: (0, String::new()),
        }
    }
}

struct Work {
    spool: Arc<Spool>,
    routes: Vec<Route>,
    service: Service,
    told: Board,
    client: Client,
}

impl Work {
    fn run(mut self, woken: &Receiver<()>) {
        loop {
            let failing = self.routes.iter().filter(|r| r.failing.is_some());
            let next = failing
                .map(|r| r.next.saturating_duration_since(Instant::now()))
                .min();
            let last = match woken.recv_timeout(next.unwrap_or(IDLE)) {
                Err(RecvTimeoutError::Disconnected) => true,
                Ok(()) | Err(RecvTimeoutError::Timeout) => false,
            };
            if last {
                // Whoever is down may be up again.
                self.routes.iter_mut().for_each(|r| r.next = Instant::now());
            }
            if let Err(error) = self.round() {
                eprintln!("dwell: {error}");
            }
            if last {
                return;
            }
        }
    }

    /// Tries what waits, oldest first, everywhere it may be tried now.
    fn round(&mut self) -> Result<(), SpoolError> {
        let all = self.spool.waiting()?;
        let mut left = all.len();
        for waiting in all {
            if !self.routes.iter().any(Route::is_due) {
                break;
            }
            self.deliver(&waiting)?;
            if self.routes.iter().all(|r| waiting.is_delivered(&r.name)) {
                waiting.remove()?;
                left -= 1;
            }
        }
        self.told.waits(left, self.spool.bytes());
        Ok(())
    }

    fn deliver(&mut self, waiting: &Waiting) -> Result<(), SpoolError> {
        let due = |r: &&mut Route| r.is_due() && !waiting.is_delivered(&r.name);
        let mut parcel = None;
        for route in self.routes.iter_mut().filter(due) {
            let done = opened(&mut parcel, waiting, &self.service)
                .and_then(|parcel| route.to.deliver(parcel, &self.client));
            if !waiting.recording().exists() {
                // It was dropped meanwhile, to make room.
                return Ok(());
            }
            let settled = match done {
                Ok(()) => {
                    route.succeeded(&self.told);
                    true
                }
                Err(error) if route.gives_up(&error, waiting) => {
                    eprintln!("dwell: {} is given up: {error}", waiting.name());
                    self.told.refused(&route.name);
                    true
                }
                Err(error) => {
                    route.failed(&error, &self.told);
                    false
                }
            };
            if settled {
                waiting.set_delivered(&route.name)?;
            }
        }
        Ok(())
    }
}

/// The parcel of a recording, opened once.
fn opened<'a>(
    parcel: &'a mut Option<Parcel>,
    waiting: &Waiting,
    service: &Service,
) -> Result<&'a mut Parcel, DeliveryError> {
    let parcel_of = |recording| Parcel::new(recording, service.clone());
    let opened = match parcel.take() {
        Some(parcel) => parcel,
        None => parcel_of(Recording::open(waiting.recording())?),
    };
    Ok(parcel.insert(opened))
}

impl Route {
    fn is_due(&self) -> bool {
        self.next <= Instant::now()
    }

    /// Whether a recording will never be taken there: others should not wait behind it.
    fn gives_up(&mut self, error: &DeliveryError, waiting: &Waiting) -> bool {
        match error.minds() {
            Minds::No => false,
            Minds::Yes => true,
            Minds::Perhaps => {
                if self.doubts.1 != waiting.name() {
                    self.doubts = (0, waiting.name());
                }
                self.doubts.0 += 1;
                self.doubts.0 >= MOST_DOUBTS
            }
        }
    }

    fn succeeded(&mut self, told: &Board) {
        if let Some(since) = self.failing.take() {
            let minutes = since.elapsed().as_secs_f64() / 60.0;
            eprintln!(
                "dwell: {} takes recordings again, after {minutes:.1} minutes",
                self.name
            );
        }
        self.backoff = Backoff::default();
        told.delivered(&self.name);
    }

    fn failed(&mut self, error: &DeliveryError, told: &Board) {
        let wait = self.backoff.failed(error.retry_after());
        self.next = Instant::now() + wait;
        if self.failing.is_none() {
            eprintln!("dwell: {error}; recordings wait, and it is tried again and again");
            self.failing = Some(Instant::now());
        }
        told.failing(&self.name, &error.to_string());
    }
}
