//! Downloads of debug files, from a server of the test's own.
mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dwell_symbols::{Debuginfod, Options, Symbol, Symbolizer};
use support::{Lab, addresses, build_id, hex, in_functions, is_named, module, names};

/// What the server answers.
#[derive(Clone)]
enum Answer {
    File(Vec<u8>),
    NotFound,
    Silence,
    /// Promises the whole file and breaks off.
    Half(Vec<u8>),
}

/// Serves `answer` to everybody; gives its address and the list of requests.
fn serve(answer: Answer) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while reader.read_line(&mut request).is_ok_and(|n| n > 2) {}
            seen.lock()
                .unwrap()
                .push(request.lines().next().unwrap_or("").to_owned());
            let ok = |length| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let (head, body) = match &answer {
                Answer::File(file) => (ok(file.len()), &file[..]),
                Answer::Half(file) => (ok(file.len()), &file[..file.len() / 2]),
                Answer::NotFound => (
                    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".into(),
                    &[][..],
                ),
                Answer::Silence => {
                    silent.push(stream);
                    continue;
                }
            };
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(body);
        }
    });
    (url, requests)
}

struct Case {
    lab: Lab,
    full: PathBuf,
    stripped: PathBuf,
    debug: Vec<u8>,
    addresses: Vec<u64>,
}

impl Case {
    fn new() -> Self {
        let lab = Lab::new();
        let full = lab.compile("inlined.c", &["-g", "-O2", "-Wl,--build-id"]);
        let stripped = lab.objcopy(&["--strip-all"], &full, "stripped");
        let debug = std::fs::read(lab.objcopy(&["--only-keep-debug"], &full, "debug")).unwrap();
        let addresses = in_functions(&full, &addresses(&full, ".text", 3));
        Self {
            lab,
            full,
            stripped,
            debug,
            addresses,
        }
    }

    fn symbolizer(&self, url: &str) -> Symbolizer {
        let debuginfod = Debuginfod {
            urls: vec![url.trim_end_matches('/').to_owned()],
            cache: self.lab.path("cache"),
            timeout: Duration::from_millis(400),
            budget: Duration::from_millis(1000),
            max_size: 10 << 20,
        };
        let debug_directories = Vec::new();
        Symbolizer::new(Options {
            debuginfod: Some(debuginfod),
            debug_directories,
            lines: true,
        })
    }

    fn ask(&self, symbolizer: &mut Symbolizer) -> Vec<Vec<Symbol>> {
        symbolizer.module(&module(&self.stripped), &self.addresses)
    }

    fn cached(&self) -> PathBuf {
        self.lab
            .path("cache")
            .join(hex(&build_id(&self.full)))
            .join("debuginfo")
    }
}

#[test]
fn a_file_is_fetched_once_and_kept() {
    let case = Case::new();
    let (url, requests) = serve(Answer::File(case.debug.clone()));
    let expected = names(&case.full, &case.addresses, &[]);
    for _ in 0..2 {
        let mut symbolizer = case.symbolizer(&url);
        assert_eq!(case.ask(&mut symbolizer), expected);
        assert_eq!(symbolizer.notes(), [""; 0]);
    }
    let id = hex(&build_id(&case.full));
    assert_eq!(
        *requests.lock().unwrap(),
        [format!("GET /buildid/{id}/debuginfo HTTP/1.1")]
    );
    assert_eq!(std::fs::read(case.cached()).unwrap(), case.debug);
}

#[test]
fn not_found_is_remembered_by_the_next_run_as_well() {
    let case = Case::new();
    let (url, requests) = serve(Answer::NotFound);
    for _ in 0..2 {
        let mut symbolizer = case.symbolizer(&url);
        case.ask(&mut symbolizer);
        assert!(case.ask(&mut symbolizer).iter().all(|c| !is_named(c)));
    }
    assert_eq!(requests.lock().unwrap().len(), 1);
    assert_eq!(std::fs::metadata(case.cached()).unwrap().len(), 0);
}

#[test]
fn a_file_of_another_build_is_refused() {
    let case = Case::new();
    let other = case
        .lab
        .compile("inlined.c", &["-g", "-O1", "-Wl,--build-id"]);
    let (url, _) = serve(Answer::File(std::fs::read(other).unwrap()));
    let mut symbolizer = case.symbolizer(&url);
    assert!(case.ask(&mut symbolizer).iter().all(|c| !is_named(c)));
    assert!(
        symbolizer.notes()[0].contains("another build id"),
        "{:?}",
        symbolizer.notes()
    );
    assert!(!case.cached().exists());
}

#[test]
fn a_broken_download_leaves_nothing() {
    let case = Case::new();
    let (url, _) = serve(Answer::Half(case.debug.clone()));
    let mut symbolizer = case.symbolizer(&url);
    assert!(case.ask(&mut symbolizer).iter().all(|c| !is_named(c)));
    assert!(
        symbolizer.notes()[0].contains("debuginfod"),
        "{:?}",
        symbolizer.notes()
    );
    let left: Vec<_> = std::fs::read_dir(case.cached().parent().unwrap())
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_silent_server_costs_no_more_than_the_budget() {
    let case = Case::new();
    let (url, requests) = serve(Answer::Silence);
    let mut symbolizer = case.symbolizer(&url);
    let started = Instant::now();
    for i in 0..20 {
        // Each with a build id of its own.
        let id = format!("-Wl,--build-id=0x{i:040x}");
        case.lab.compile("inlined.c", &["-O2", "-s", &id]);
        let program = case.lab.path("program");
        let before = Instant::now();
        symbolizer.module(&module(&program), &case.addresses);
        assert!(
            before.elapsed() < Duration::from_millis(900),
            "one question took too long"
        );
        if requests.lock().unwrap().len() == 3 && i > 5 {
            break;
        }
    }
    assert!(
        requests.lock().unwrap().len() <= 3,
        "{} asked",
        requests.lock().unwrap().len()
    );
    assert!(started.elapsed() < Duration::from_secs(20));
    let notes = symbolizer.notes();
    assert!(
        notes.iter().any(|note| note.contains("used up")),
        "{notes:?}"
    );
}
