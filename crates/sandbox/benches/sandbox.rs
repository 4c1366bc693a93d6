//! Measures the cost of the sandbox: the time of a command under its own lease,
//! compared with a plain start of the same command.
//!
//! Run `cargo bench --bench sandbox` as root on an idle machine, or with `chrt
//! -f 20` on a busy one. `-- uid` measures only that tier. Samples with and
//! without the sandbox alternate, so both see the same load. State the results
//! in the commit message of a change.

#![expect(clippy::expect_used, reason = "a measurement that cannot go on is none")]
#![expect(clippy::print_stdout, reason = "the figures")]

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    pin::Pin,
    process::{Command as Plain, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use cmp_archive::UnpackLimits;
use cmp_sandbox::{
    Bounds, Command, Link, Room, SPAWNER, Setup, Skeleton, Spawner, Tier, Unpack, spawner_main,
};
use flate2::{Compression, write::GzEncoder};

/// Samples of each kind.
const SAMPLES: usize = 600;

/// Samples that are not counted.
const WARM_UP: usize = 50;

/// Bytes that a large supervisor holds. They must not affect the time to start
/// a process.
const LARGE: usize = 1 << 30;

/// Number of leases, as for 16 concurrent requests.
const LEASES: u32 = 64;

/// The command that is measured.
const PROGRAM: &str = "/bin/true";

fn main() -> ExitCode {
    // This program is also the spawner.
    if env::args_os().nth(1).is_some_and(|word| word == SPAWNER) {
        return spawner_main().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    // `cargo test` runs this without `--bench`, only to check that it compiles.
    if !env::args_os().any(|word| word == "--bench") {
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |tier: &Tier| wanted.is_empty() || wanted.contains(&tier.to_string());
    for tier in [Tier::Namespaces, Tier::Uid, Tier::Landlock].into_iter().filter(is_wanted) {
        for held in [0, LARGE] {
            measure(tier, held);
        }
    }
    ExitCode::SUCCESS
}

fn measure(tier: Tier, held: usize) {
    let directory = tempfile::tempdir_in(place()).expect("a directory");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(directory.path(), mode).expect("a mode");
    let setup = setup(tier, directory.path());
    let (spawner, process) = match Spawner::start(&setup) {
        Ok(started) => started,
        Err(error) => return println!("{tier}: skipped: {error}"),
    };
    let memory = vec![1_u8; held];
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
    let spawner_pid = child_of("thread-self");
    let at_first = resident(&spawner_pid);
    let times = runtime.block_on(async {
        let (link, driver) = Link::new(spawner).expect("a link");
        tokio::select! {
            _ = driver => None,
            measured = async { (sample(&link).await, worker(&link, &spawner_pid).await) } => {
                Some(measured)
            }
        }
    });
    let (times, worker) = times.expect("a spawner until the end");
    drop(runtime);
    process.wait(Duration::from_secs(5));
    let [plain, confined, whole] = times.map(Figures::of);
    let over = |a: Duration, b: Duration| a.as_secs_f64() * 1e3 - b.as_secs_f64() * 1e3;
    println!(
        "{tier}, holding {} MiB: plain {plain}, confined {confined}, overhead {:.3} ms (p99 {:.3} \
         ms), whole request {whole}; resident: spawner {at_first}, worker {worker}",
        memory.len() >> 20,
        over(confined.median, plain.median),
        over(confined.p99, plain.p99),
    );
}

/// A directory in memory if possible, so that the disk is not measured.
fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { env::temp_dir() }
}

fn setup(tier: Tier, directory: &Path) -> Setup {
    Setup {
        tiers: vec![tier],
        first_uid: 60_706,
        uid_count: 478,
        shared_uid: 999,
        leases: LEASES,
        work_dir: directory.to_owned(),
        hidden: Vec::new(),
        secret: Vec::new(),
        shown: Vec::new(),
        skeleton: Skeleton::default(),
        scripts: Vec::new(),
        programs: vec!["/bin".into(), "/usr/bin".into()],
        accept_no_landlock: false,
        observes: false,
        arguments: Vec::new(),
        request_cgroups: cmp_sandbox::Demand::Auto,
    }
}

/// Times of plain starts, of confined commands, and of whole requests.
async fn sample(link: &Link) -> [Vec<Duration>; 3] {
    let mut times = [const { Vec::new() }; 3];
    for number in 0..WARM_UP + SAMPLES {
        let (plain, (confined, whole)) = (start(), request(link).await);
        if number >= WARM_UP {
            let all = times.iter_mut().zip([plain, confined, whole]);
            all.for_each(|(times, time)| times.push(time));
        }
    }
    times
}

/// A plain start with the standard library, which uses `posix_spawn(3)`.
fn start() -> Duration {
    let began = Instant::now();
    let status = Plain::new(PROGRAM).stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.expect("a status").success());
    began.elapsed()
}

/// A lease, an empty archive and a command. The release happens after the
/// answer and delays the next request.
async fn request(link: &Link) -> (Duration, Duration) {
    let asked = Instant::now();
    let mut lease = link.lease(Bounds::default(), None).await.expect("a lease");
    let limits = UnpackLimits { bytes: 1 << 20, files: 10, is_volume: false };
    let mut unpacking = lease.unpack(Unpack::all(limits)).await.expect("a worker");
    unpacking.write(&empty_archive()).await.expect("an archive");
    unpacking.finish().await.expect("an unpacked archive");
    // Only the command is compared with the plain start, which unpacks nothing.
    let began = Instant::now();
    let ordered = lease.order(command()).await.expect("a worker");
    let output = lease.run(ordered, None).await.expect("an output");
    assert_eq!(output.termination, cmp_sandbox::Termination::Exit(0));
    drop(lease);
    (began.elapsed(), asked.elapsed())
}

/// Memory of a first worker that waits for its archive, or of its guard.
async fn worker(link: &Link, spawner: &str) -> String {
    let mut lease = link.lease(Bounds::default(), None).await.expect("a lease");
    let limits = UnpackLimits { bytes: 1 << 20, files: 10, is_volume: false };
    let unpacking = lease.unpack(Unpack::all(limits)).await.expect("a worker");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let resident = resident(&child_of(spawner));
    drop(unpacking);
    resident
}

/// A tar archive ends with a kilobyte of zeros.
fn empty_archive() -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&[0; 1024]).expect("a written archive");
    encoder.finish().expect("a whole archive")
}

/// Grants everything.
#[derive(Debug)]
struct Unlimited;

impl Room for Unlimited {
    fn grow(self: Arc<Self>, _bytes: usize) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        Box::pin(std::future::ready(true))
    }
}

fn command() -> Command {
    Command {
        words: vec![PROGRAM.into()],
        inherited: Vec::new(),
        environment: Vec::new(),
        search: "/bin".into(),
        directory: ".".into(),
        preserve_file_mode: false,
        max_output: 1 << 20,
        room: Arc::new(Unlimited),
        redactor: Arc::default(),
        ask_pass: None,
    }
}

struct Figures {
    median: Duration,
    p99: Duration,
}

impl Figures {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
        Self { median: at(50), p99: at(99) }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(formatter, "{:.3} ms (p99 {:.3} ms)", ms(self.median), ms(self.p99))
    }
}

/// The youngest child of a process.
fn child_of(process: &str) -> String {
    let path = match process {
        "thread-self" => "/proc/thread-self/children".to_owned(),
        process => format!("/proc/{process}/task/{process}/children"),
    };
    let children = fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().last().unwrap_or_default().to_owned()
}

/// Resident memory of a process: total, and the part that is private.
fn resident(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map_or("unknown".to_owned(), |line| line.trim().to_owned())
    };
    format!("{} ({} of it its own)", field("VmRSS:"), field("RssAnon:"))
}
