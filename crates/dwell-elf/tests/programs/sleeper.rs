// A Rust program: generic recursion, a boxed closure and a trait object; the main thread joins a
// thread that sleeps. Prints "ready" from the thread just before it sleeps.
use std::io::Write;
use std::time::Duration;

trait Step {
    fn go(&self, n: u32, f: &dyn Fn(u32) -> u64) -> u64;
}

struct Deep;

impl Step for Deep {
    #[inline(never)]
    fn go(&self, n: u32, f: &dyn Fn(u32) -> u64) -> u64 {
        let room = [n as u8; 777];
        if n == 0 { f(n) + u64::from(std::hint::black_box(room)[3]) } else { self.go(n - 1, f) + 1 }
    }
}

#[inline(never)]
fn rest(n: u32) -> u64 {
    std::thread::sleep(Duration::from_millis(50));
    println!("ready");
    std::io::stdout().flush().expect("flush");
    std::thread::sleep(Duration::from_secs(600));
    u64::from(n)
}

fn main() {
    let boxed: Box<dyn Step + Send> = Box::new(Deep);
    let thread = std::thread::Builder::new().name("deep".into()).spawn(move || boxed.go(40, &rest)).expect("spawn");
    std::process::exit(thread.join().expect("join") as i32);
}
