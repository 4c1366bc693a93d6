//! A running container.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    ops::RangeInclusive,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sched::{CloneFlags, setns},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    baseline::State,
    bundle::Bundle,
    container,
    groups::Groups,
    plugin::{ConfigMap, Plugin},
    processes::Process,
    request::{Archive, Request},
    victim::{self, Victim},
    volume::{Used, Volume},
};

/// Time limit of every wait, for a machine with much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Pause between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(20);

/// Address of the product's HTTP server in the container.
const HTTP: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 9180);

/// Everything that a container is made of, and that outlives its processes.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) bundle: Bundle,
    pub(crate) volume: Volume,
    pub(crate) config_map: ConfigMap,
    pub(crate) groups: Groups,
    /// UIDs of tenants.
    pub(crate) uids: RangeInclusive<u32>,
    /// True if Argo CD's own server runs in it, which has no HTTP server.
    pub(crate) is_peer: bool,
}

/// A container that runs, and is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) parts: Parts,
    runtime: Child,
    network: Option<Network>,
    archive: Archive,
    before: Option<State>,
    /// The state at the first start.
    original: Option<State>,
}

impl Running {
    pub(crate) fn start(parts: Parts) -> Self {
        let file = [("app.yaml", b"{}".as_slice())];
        let archive = Archive::pack(&parts.bundle.at("app.tgz"), file);
        let runtime = launch(&parts);
        let mut this =
            Self { parts, runtime, network: None, archive, before: None, original: None };
        this.become_ready();
        this
    }

    fn become_ready(&mut self) {
        let pid_file = self.parts.bundle.at("pid");
        let mut first = None;
        self.until("a first process", |pod| {
            assert!(!pod.log().contains("runc run failed"), "{}", pod.log());
            first = fs::read_to_string(&pid_file).ok().and_then(|text| text.parse::<i32>().ok());
            first.is_some()
        });
        let namespace = format!("/proc/{}/ns/net", first.unwrap_or_default());
        let opened = File::open(namespace).unwrap_or_else(|e| panic!("{e}: {}", self.log()));
        self.network = Some(Network(Arc::new(opened)));
        if self.parts.is_peer {
            self.until("an answer", |pod| victim::call_once(pod).is_ok());
            return;
        }
        self.until("readiness", |pod| {
            assert!(!pod.groups().pids().is_empty(), "it ended: {}", pod.log());
            pod.network().ask("GET", "/readyz", PATIENCE).is_ok_and(|answer| answer.0 == 200)
        });
        // The first requests start processes and threads that stay.
        for _ in 0..3 {
            victim::call_once(self).unwrap_or_else(|error| panic!("{error}\n{}", self.log()));
        }
        self.before = Some(State::settled(self));
        if self.original.is_none() {
            self.original.clone_from(&self.before);
        }
    }

    /// Starts the container again in the same volumes, as the kubelet does.
    pub(crate) fn restart(&mut self) {
        container::delete(&self.parts.bundle, self.groups());
        let _ = self.runtime.wait();
        let _ = fs::remove_file(self.parts.bundle.at("pid"));
        self.runtime = launch(&self.parts);
        self.become_ready();
    }

    pub(crate) fn groups(&self) -> &Groups {
        &self.parts.groups
    }

    pub(crate) fn network(&self) -> Network {
        self.network.clone().unwrap()
    }

    /// A request to a plugin, for an application with one file.
    pub(crate) fn request(&self, plugin: &str) -> Request {
        Request::new(self.parts.bundle.at("sockets").join(format!("{plugin}.sock")), &self.archive)
    }

    /// Packs another repository.
    pub(crate) fn pack<'a>(&self, files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Archive {
        let name = format!("{:x}.tgz", rand::random::<u64>());
        Archive::pack(&self.parts.bundle.at(&name), files)
    }

    /// A path for a file of the test.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.parts.bundle.at(name)
    }

    /// Starts a victim.
    pub(crate) fn victim(&self) -> Victim {
        Victim::start(self)
    }

    /// Replaces the definitions; those of the victim stay.
    pub(crate) fn update(&self, plugins: &[Plugin]) {
        let all: Vec<_> = plugins.iter().cloned().chain(victim::plugins()).collect();
        self.parts.config_map.update(&all);
    }

    /// All processes of the container.
    pub(crate) fn processes(&self) -> Vec<Process> {
        self.groups().pids().into_iter().filter_map(Process::read).collect()
    }

    /// Processes that run under a UID of the tenants.
    pub(crate) fn tenants(&self) -> Vec<Process> {
        let all = self.processes().into_iter();
        all.filter(|process| self.parts.uids.contains(&process.uid)).collect()
    }

    /// Processes of tenants with exactly this command line: that of a shell contains its whole
    /// script.
    pub(crate) fn commands(&self, line: &str) -> Vec<Process> {
        self.tenants().into_iter().filter(|tenant| tenant.command == line).collect()
    }

    /// True if a tenant has a process with exactly this command line.
    pub(crate) fn runs(&self, line: &str) -> bool {
        !self.commands(line).is_empty()
    }

    /// Kills the commands with this line, so that their scripts go on.
    pub(crate) fn end(&self, line: &str) {
        for command in self.commands(line) {
            self.signal(&command, Signal::SIGKILL);
        }
    }

    /// The process that serves.
    pub(crate) fn supervisor(&self) -> Process {
        let all = self.processes();
        let is_ours = |process: &&Process| process.command.starts_with("/cmp-supervisor");
        let ours: Vec<_> = all.iter().filter(is_ours).collect();
        let has_parent = |process: &&&Process| ours.iter().any(|other| other.pid == process.parent);
        let first = ours.iter().find(|process| !has_parent(process));
        (*first.unwrap_or_else(|| panic!("no supervisor: {}", self.log()))).clone()
    }

    /// The process that forks the workers.
    pub(crate) fn spawner(&self) -> Process {
        let supervisor = self.supervisor().pid;
        let spawner = self.processes().into_iter().find(|process| process.parent == supervisor);
        spawner.unwrap_or_else(|| panic!("no spawner: {}", self.log()))
    }

    /// Sends a signal to a process.
    #[expect(clippy::unused_self, reason = "processes are signalled while the container runs")]
    pub(crate) fn signal(&self, process: &Process, signal: Signal) {
        kill(Pid::from_raw(process.pid), signal).unwrap();
    }

    /// Space that is used in the work volume.
    pub(crate) fn used(&self) -> Used {
        self.parts.volume.used()
    }

    /// Everything that the product has logged and runc has passed on.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.parts.bundle.at("log")).unwrap_or_default()
    }

    /// Sum of a metric over all its labels. `None` if the server does not answer.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        if self.parts.is_peer {
            return None;
        }
        let page = self.network().ask("GET", "/metrics", PATIENCE).ok()?.1;
        let is_meant =
            |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        let values = page.lines().filter(is_meant).filter_map(|line| line.rsplit_once(' '));
        Some(values.filter_map(|(_, value)| value.parse::<f64>().ok()).sum())
    }

    /// True if the container has processes.
    pub(crate) fn is_alive(&self) -> bool {
        !self.groups().pids().is_empty()
    }

    /// Waits for a condition.
    pub(crate) fn until(&self, name: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < end, "timed out waiting for {name}\n{}", self.log());
            thread::sleep(PAUSE);
        }
    }

    /// Waits until the log has a text. runc copies the log, so a line may arrive here
    /// after the answer that it is about.
    pub(crate) fn says(&self, text: &str) {
        self.until(text, |pod| pod.log().contains(text));
    }

    /// Waits until the container uses no more than before the test, and panics if
    /// it does not within a minute.
    pub(crate) fn assert_baseline(&self) {
        let before = self.before.as_ref().unwrap();
        before.assert_reached(self);
    }

    /// The same, compared with the first start.
    pub(crate) fn assert_original(&self) {
        let original = self.original.as_ref().unwrap();
        original.assert_reached(self);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", tail(&self.log()));
        }
        container::remove(&self.parts.bundle, &self.parts.groups);
        let _ = self.runtime.kill();
        let _ = self.runtime.wait();
    }
}

/// The last lines of a log.
fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// Runs the container.
fn launch(parts: &Parts) -> Child {
    let bundle = &parts.bundle;
    let log = File::options().create(true).append(true).open(bundle.at("log")).unwrap();
    let mut command = Command::new("runc");
    command.arg("--root").arg(bundle.at("state")).args(["run", "--bundle"]).arg(&bundle.0);
    command.arg("--pid-file").arg(bundle.at("pid")).arg(&parts.groups.name);
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().unwrap()
}

/// The network of a container.
#[derive(Clone, Debug)]
pub(crate) struct Network(Arc<File>);

impl Network {
    /// Runs a function inside, for example to connect.
    pub(crate) fn within<T: Send>(&self, function: impl FnOnce() -> T + Send) -> T {
        let enter = || {
            setns(&*self.0, CloneFlags::CLONE_NEWNET).unwrap();
            function()
        };
        // Only this thread enters, and it ends here.
        thread::scope(|scope| scope.spawn(enter).join().unwrap())
    }

    /// Connects to the HTTP server.
    pub(crate) fn connect(&self) -> io::Result<TcpStream> {
        self.within(|| TcpStream::connect(HTTP))
    }

    /// Sends an HTTP request; returns status and body.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        limit: Duration,
    ) -> io::Result<(u16, String)> {
        let mut stream = self.within(|| TcpStream::connect_timeout(&HTTP.into(), limit))?;
        stream.set_read_timeout(Some(limit))?;
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let parsed = answer.split_once("\r\n\r\n").and_then(|(head, body)| {
            Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
        });
        parsed.ok_or_else(|| io::Error::other(format!("not an answer: {answer:?}")))
    }
}
