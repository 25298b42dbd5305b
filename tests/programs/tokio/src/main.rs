//! tokio-mix: an asynchronous Rust program, built without frame pointers.
//!
//! What it does, on two worker threads: `compute_task` computes 2 ms between yields, `sleeping_task`
//! sleeps 5 ms at a time, `echo_server` and `echo_client` exchange 64 bytes over the loopback, and
//! `blocking_job` sleeps 10 ms on a thread of the blocking pool.
//!
//! Its true answer (one JSON line): rounds of each. Processor time is in `compute_step`; the workers'
//! waits are the runtime's own (epoll_wait, futex), below `std::thread` and `clone3`; the pool's
//! thread sleeps in `blocking_job`.
//!
//! Usage: tokio-mix [SECONDS]
use std::hint::black_box;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[inline(never)]
fn compute_step() {
    let end = Instant::now() + Duration::from_millis(2);
    let mut x = 88172645463325252u64;
    while Instant::now() < end {
        for _ in 0..1000 {
            x = black_box(
                x.wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407),
            );
        }
    }
}

async fn compute_task(end: Instant) -> u64 {
    let mut rounds = 0;
    while Instant::now() < end {
        compute_step();
        rounds += 1;
        tokio::task::yield_now().await;
    }
    rounds
}

async fn sleeping_task(end: Instant) -> u64 {
    let mut rounds = 0;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(5)).await;
        rounds += 1;
    }
    rounds
}

async fn echo_server(listener: TcpListener) -> std::io::Result<u64> {
    let (mut stream, _) = listener.accept().await?;
    let mut buffer = [0; 64];
    let mut rounds = 0;
    while stream.read_exact(&mut buffer).await.is_ok() {
        stream.write_all(&buffer).await?;
        rounds += 1;
    }
    Ok(rounds)
}

async fn echo_client(address: std::net::SocketAddr, end: Instant) -> std::io::Result<u64> {
    let mut stream = TcpStream::connect(address).await?;
    let mut buffer = [0; 64];
    let mut rounds = 0;
    while Instant::now() < end {
        stream.write_all(&buffer).await?;
        stream.read_exact(&mut buffer).await?;
        rounds += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(rounds)
}

#[inline(never)]
fn blocking_job() {
    std::thread::sleep(Duration::from_millis(10));
    black_box(());
}

async fn blocking_jobs(end: Instant) -> u64 {
    let mut rounds = 0;
    while Instant::now() < end {
        tokio::task::spawn_blocking(blocking_job)
            .await
            .expect("the job does not panic");
        rounds += 1;
    }
    rounds
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: f64 = std::env::args()
        .nth(1)
        .map_or(Ok(2.0), |text| text.parse())?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let compute = tokio::spawn(compute_task(end));
    let sleeping = tokio::spawn(sleeping_task(end));
    let server = tokio::spawn(echo_server(listener));
    let client = tokio::spawn(echo_client(address, end));
    let blocking = tokio::spawn(blocking_jobs(end));
    println!(
        "{{\"program\":\"tokio-mix\",\"computed\":{},\"slept\":{},\"asked\":{},\"answered\":{},\"blocking\":{}}}",
        compute.await?,
        sleeping.await?,
        client.await??,
        server.await??,
        blocking.await?
    );
    Ok(())
}
