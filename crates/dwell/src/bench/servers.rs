//! Servers under load: redis and PostgreSQL, each started in a folder of its own, without a network.
use super::process::{Gated, ends_within, signal, tree_cpu_s, wait};
use super::programs::{find, find_postgres};
use super::workload::{Attach, Better, Metric, Workload};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const REDIS: [Metric; 3] = [
    Metric {
        name: "requests per second",
        unit: "req/s",
        better: Better::Higher,
    },
    Metric {
        name: "server CPU time per request",
        unit: "ns",
        better: Better::Lower,
    },
    Metric {
        name: "request latency, 99th percentile",
        unit: "ms",
        better: Better::Lower,
    },
];
const PGBENCH: [Metric; 2] = [
    Metric {
        name: "transactions per second",
        unit: "tx/s",
        better: Better::Higher,
    },
    Metric {
        name: "server CPU time per transaction",
        unit: "us",
        better: Better::Lower,
    },
];

/// How long a server may take to answer after its start.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long it may take to end after SIGINT.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A running server; ended when dropped.
struct Server {
    child: Child,
    name: &'static str,
}

impl Server {
    /// Starts it and waits until its socket is there.
    fn start(name: &'static str, mut command: Command, log: &Path, socket: &Path) -> Result<Self> {
        let log_file =
            File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log_file.try_clone()?)
            .stderr(log_file)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let server = Server { child, name };
        let start = Instant::now();
        while !socket.exists() {
            if start.elapsed() > START_LIMIT || super::process::has_ended(&server.child) {
                let said = fs::read_to_string(log).unwrap_or_default();
                bail!(
                    "{} did not start: {}",
                    server.name,
                    said.lines().last().unwrap_or("it said nothing")
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(&self.child, libc::SIGINT);
        if !ends_within(&self.child, STOP_LIMIT) {
            signal(&self.child, libc::SIGKILL);
        }
        let _ = wait(&self.child);
    }
}

/// redis-server under redis-benchmark's GET with 20 clients.
pub struct Redis {
    server: Server,
    benchmark: PathBuf,
    arguments: Vec<String>,
    requests: f64,
}

/// Requests a second to expect when choosing how many to make.
const REDIS_REQUESTS_PER_S: f64 = 80_000.0;

impl Redis {
    /// Starts the server.
    pub fn start(scratch: &Path, seconds: f64) -> Result<Self> {
        let program = find(&["redis-server"]).context("redis-server is not installed")?;
        let benchmark =
            find(&["redis-benchmark"]).context("redis-benchmark is not installed (redis-tools)")?;
        let socket = scratch.join("redis.socket");
        let mut command = Command::new(program);
        command
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(&socket);
        let server = Server::start("redis-server", command, &scratch.join("redis.log"), &socket)?;
        let requests = (seconds * REDIS_REQUESTS_PER_S).round();
        let mut arguments = vec!["-s".to_owned(), socket.display().to_string()];
        arguments.extend(["-t", "get", "-c", "20", "-P", "1", "--csv", "-n"].map(str::to_owned));
        arguments.push(requests.to_string());
        Ok(Redis {
            server,
            benchmark,
            arguments,
            requests,
        })
    }
}

/// A column of redis-benchmark's CSV, by its heading.
fn csv_column(output: &str, heading: &str) -> Result<f64> {
    let rows: Vec<Vec<&str>> = output
        .lines()
        .map(|l| l.split(',').map(|f| f.trim_matches('"')).collect())
        .collect();
    let header = rows
        .iter()
        .position(|r| r.contains(&heading))
        .context("no table from redis-benchmark")?;
    let column = rows[header]
        .iter()
        .position(|h| *h == heading)
        .context("no such column")?;
    let cell = rows
        .get(header + 1)
        .and_then(|r| r.get(column))
        .context("no row from redis-benchmark")?;
    cell.parse()
        .with_context(|| format!("{heading} is {cell:?}"))
}

impl Workload for Redis {
    fn metrics(&self) -> &'static [Metric] {
        &REDIS
    }

    fn measure(&mut self, scratch: &Path, attach: &mut Attach) -> Result<Vec<f64>> {
        attach(self.server.pid())?;
        let before = tree_cpu_s(self.server.pid());
        let mut load = Gated::spawn(scratch, &self.benchmark, &self.arguments)?;
        load.release()?;
        let (output, _) = load.finish()?;
        let cpu_s = tree_cpu_s(self.server.pid()) - before;
        Ok(vec![
            csv_column(&output, "rps")?,
            cpu_s * 1e9 / self.requests,
            csv_column(&output, "p99_latency_ms")?,
        ])
    }
}

/// PostgreSQL under pgbench's own transactions with 4 clients, with fsync off: the disk's moods would
/// hide everything else.
pub struct Pgbench {
    server: Server,
    benchmark: PathBuf,
    arguments: Vec<String>,
}

/// PostgreSQL refuses to run as root; what to run before its programs so that they do not.
struct Identity(Vec<String>);

impl Identity {
    fn choose(folder: &Path) -> Result<Self> {
        // SAFETY: geteuid takes no arguments and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return Ok(Identity(Vec::new()));
        }
        let setpriv = find(&["setpriv"]).context("setpriv is not installed (util-linux)")?;
        let chown = Command::new("chown").arg("postgres:").arg(folder).status();
        if !chown.is_ok_and(|s| s.success()) {
            bail!("there is no user postgres, and postgres does not run as root");
        }
        let arguments = ["--reuid=postgres", "--regid=postgres", "--clear-groups"];
        let mut words = vec![setpriv.display().to_string()];
        words.extend(arguments.map(str::to_owned));
        Ok(Identity(words))
    }

    fn command(&self, program: &Path) -> Command {
        let Some((first, rest)) = self.0.split_first() else {
            return Command::new(program);
        };
        let mut command = Command::new(first);
        command.args(rest).arg(program);
        command
    }
}

impl Pgbench {
    /// Makes a database and starts the server.
    pub fn start(scratch: &Path, seconds: f64) -> Result<Self> {
        let missing = || "postgresql is not installed (apt-get install postgresql)";
        let initdb = find_postgres("initdb").with_context(missing)?;
        let postgres = find_postgres("postgres").with_context(missing)?;
        let benchmark = find_postgres("pgbench").with_context(missing)?;
        let folder = scratch.join("postgres");
        fs::create_dir_all(&folder)?;
        let identity = Identity::choose(&folder)?;
        let data = folder.join("data");
        succeed(
            identity
                .command(&initdb)
                .args(["-U", "bench", "-A", "trust", "--no-sync", "-D"])
                .arg(&data),
        )?;

        let mut command = identity.command(&postgres);
        command.arg("-D").arg(&data).arg("-k").arg(&folder);
        for setting in [
            "listen_addresses=",
            "fsync=off",
            "autovacuum=off",
            "checkpoint_timeout=1d",
        ] {
            command.args(["-c", setting]);
        }
        let socket = folder.join(".s.PGSQL.5432");
        let server = Server::start("postgres", command, &scratch.join("postgres.log"), &socket)?;
        await_answer(&folder)?;

        let mut arguments = vec!["-h".to_owned(), folder.display().to_string()];
        arguments.extend(["-U", "bench"].map(str::to_owned));
        succeed(
            Command::new(&benchmark)
                .args(&arguments)
                .args(["-i", "-q", "-s", "5", "postgres"]),
        )?;
        arguments.extend(["-n", "-c", "4", "-M", "prepared", "-T"].map(str::to_owned));
        arguments.extend([seconds.ceil().to_string(), "postgres".to_owned()]);
        Ok(Pgbench {
            server,
            benchmark,
            arguments,
        })
    }
}

/// The socket is there before the server takes connections.
fn await_answer(folder: &Path) -> Result<()> {
    let ready = find_postgres("pg_isready").context("pg_isready is not installed")?;
    let start = Instant::now();
    while succeed(Command::new(&ready).arg("-h").arg(folder)).is_err() {
        if start.elapsed() > START_LIMIT {
            bail!("postgres does not take connections");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{:?} failed: {}",
            command.get_program(),
            said.lines().last().unwrap_or("it said nothing")
        );
    }
    Ok(())
}

/// The number behind a label, up to the next space.
fn number_behind(output: &str, label: &str) -> Result<f64> {
    let rest = output
        .split(label)
        .nth(1)
        .with_context(|| format!("no {label:?} from pgbench"))?;
    let number: String = rest
        .trim_start()
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    number
        .parse()
        .with_context(|| format!("{label:?} is followed by no number"))
}

impl Workload for Pgbench {
    fn metrics(&self) -> &'static [Metric] {
        &PGBENCH
    }

    fn works_in_children(&self) -> bool {
        true
    }

    fn measure(&mut self, scratch: &Path, attach: &mut Attach) -> Result<Vec<f64>> {
        attach(self.server.pid())?;
        let before = tree_cpu_s(self.server.pid());
        let mut load = Gated::spawn(scratch, &self.benchmark, &self.arguments)?;
        load.release()?;
        let (output, _) = load.finish()?;
        let cpu_s = tree_cpu_s(self.server.pid()) - before;
        let transactions = number_behind(&output, "number of transactions actually processed:")?;
        Ok(vec![
            number_behind(&output, "tps =")?,
            cpu_s * 1e6 / transactions,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_columns() {
        let output = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
            \"GET\",\"79302.14\",\"0.131\",\"0.032\",\"0.127\",\"0.175\",\"0.303\",\"1.111\"\n";
        assert_eq!(csv_column(output, "rps").unwrap(), 79302.14);
        assert_eq!(csv_column(output, "p99_latency_ms").unwrap(), 0.303);
        assert!(csv_column("", "rps").is_err());
    }

    #[test]
    fn pgbench_numbers() {
        let output = "number of transactions actually processed: 7123\ntps = 3561.209118 (without initial)\n";
        assert_eq!(number_behind(output, "tps =").unwrap(), 3561.209118);
        assert_eq!(
            number_behind(output, "actually processed:").unwrap(),
            7123.0
        );
    }
}
