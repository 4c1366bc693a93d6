use cmp_sandbox::{Network, Readable};

use super::*;
use crate::{container::Bound, plugin::definition_of};

fn hint(limits: &str, end: Termination, stderr: &str) -> String {
    hint_with(limits, end, stderr, None)
}

fn hint_with(limits: &str, end: Termination, stderr: &str, oom: Option<&OomKill>) -> String {
    hint_after([90, 0, 2], (limits, end), stderr, oom)
}

/// The hint if a command ran for some seconds, its request had waited for others, and all
/// requests together have some bytes of memory.
fn hint_after(
    [ran, waited, memory]: [u64; 3],
    (limits, end): (&str, Termination),
    stderr: &str,
    oom: Option<&OomKill>,
) -> String {
    let plugin = definition_of("x", &format!("limits: {limits}"));
    let bounds = Bounds {
        memory: Some(1),
        processes: Some(2),
        file_size: Some(3),
        cpu_seconds: Some(4),
        network: Network::Ports(vec![22, 443]),
        ..Bounds::default()
    };
    let second = Duration::from_secs(1);
    let usage = Some(Usage { user: second, system: second, max_rss: 0 });
    let reach = Reach {
        readable: Some(Readable::fixed(&["/usr"], &[])),
        filters_ports: true,
        hides_closed: true,
        ..Reach::default()
    };
    let (plugin, bounds, reach) = (&plugin, &bounds, &reach);
    let unpacked = Some(Unpacked { files: 9, bytes: 9, left_out: 7, dangling: None });
    let unpacked = unpacked.as_ref();
    let [ran, waited] = [ran, waited].map(Duration::from_secs);
    let (text, times) = (stderr, Times { ran, waited });
    let refusal = reach.refusal(bounds, text);
    let refusal = refusal.as_deref();
    let full = text.contains("No space").then_some("the work volume is full");
    let facts = Facts {
        usage,
        times,
        text,
        refusal,
        full,
        oom,
        unpacked,
        memory,
        ..facts(plugin, bounds, end)
    };
    Hint::of_end(&facts).map_or(String::new(), |hint| hint.to_string())
}

/// A command that ended so, and of which nothing else is known.
pub(super) fn facts<'e>(
    plugin: &'e PluginDefinition,
    bounds: &'e Bounds,
    end: Termination,
) -> Facts<'e> {
    Facts {
        plugin,
        phase: Phase::Generate,
        tier: Tier::Uid,
        bounds,
        end,
        usage: None,
        times: Times { ran: Duration::ZERO, waited: Duration::ZERO },
        text: "",
        refusal: None,
        full: None,
        oom: None,
        no_kill: NoKill::Counted,
        unpacked: None,
        memory: u64::MAX,
        file_size: None,
    }
}

fn signal(number: i32) -> Termination {
    Termination::Signal { number, core: false }
}

#[test]
fn the_heap_of_node_js_has_a_limit_of_its_own() {
    let abort = Termination::Exit(134);
    let own = "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory";
    assert!(hint("{memory: 1}", abort, own).contains("reached its own limit, not that of"));
    let other = "FATAL ERROR: MarkCompactCollector: young object promotion failed Allocation \
                 failed - JavaScript heap out of memory";
    let text = hint("{memory: 1}", abort, other);
    assert!(text.contains("NODE_OPTIONS=--max-old-space-size=0 in the command"), "{text}");
    for (script, expected) in [
        ("exec node main.js", true),
        ("true && A=b /opt/bin/node x", true),
        ("if ! npm ci; then exit 1; fi", true),
        ("ls node_modules", false),
        ("kubectl get node", false),
        ("helm template --set role=node charts/node/", false),
    ] {
        let generate = format!("generate: {{command: [sh, -c, '{script}']}}");
        let plugin = definition_of("x", &generate);
        let bounds = Bounds { memory: Some(400 << 20), ..Bounds::default() };
        let end =
            Termination::LimitExceeded { what: ExceededLimit::Memory, limit: None, used: None };
        let text = Hint::of_end(&facts(&plugin, &bounds, end)).unwrap().to_string();
        assert_eq!(text.contains("--max-old-space-size=300 "), expected, "{script}: {text}");
    }
}

#[test]
fn a_silent_program_may_lack_memory() {
    let hint = |stderr| hint("{memory: 1}", Termination::Deadline, stderr);
    let text = " [it wrote nothing and hardly ran, possibly for lack of memory: each of its \
                processes may have 1 bytes of memory: raise the plugin's spec.limits.memory]";
    assert_eq!(hint(""), text);
    assert_eq!(hint("connecting"), "");
}

#[test]
fn a_program_that_was_stopped_soon_may_just_be_slow() {
    let hint = |[ran, waited]: [u64; 2], limits| {
        hint_after([ran, waited, 2], (limits, Termination::Deadline), "", None)
    };
    assert_eq!(hint([9, 8], "{memory: 1}"), "");
    let waited = hint([2, 3], "{memory: 1}");
    assert!(waited.contains("waited 3.0s for a free place before: raise --max-req"), "{waited}");
    let waited = hint([2, 3], "{requests: 1}");
    assert!(waited.contains("before: raise the plugin's spec.limits.requests"), "{waited}");
}

#[test]
fn a_missing_file_may_be_left_out() {
    let hint = hint("{}", Termination::Exit(1), "cat: common.yaml: No such file or directory");
    assert!(hint.contains("7 of the repository's 9 files and directories"), "{hint}");
    assert!(hint.contains("spec.workspace.include"), "{hint}");
}

#[test]
fn a_limits_signal_names_the_limit_and_the_remedy() {
    for end in [signal(SIGXCPU), Termination::Exit(152)] {
        let text = hint("{}", end, "");
        assert_eq!(
            text,
            " [a process reached the limit of 4s of CPU time: raise --max-cpu, or give \
             the plugin a spec.limits.cpu]"
        );
    }
    let text = hint("{fileSize: 3}", signal(SIGXFSZ), "");
    assert!(text.ends_with("limit of 3 bytes: raise the plugin's spec.limits.fileSize]"), "{text}");
}

#[test]
fn a_limit_of_the_container_for_files_is_told_if_it_is_the_lower_one() {
    let plugin = definition_of("x", "");
    let hint = |end, text, own, file_size| {
        let bounds = Bounds { file_size: own, ..Bounds::default() };
        let facts = Facts { text, file_size, ..facts(&plugin, &bounds, end) };
        Hint::of_end(&facts).map_or(String::new(), |hint| hint.to_string())
    };
    let container = " [a file may have 3 bytes in this container (RLIMIT_FSIZE): raise the hard \
                     limit of the container's runtime (ulimit -f)]";
    for own in [Some(4), None] {
        assert_eq!(hint(signal(SIGXFSZ), "", own, Some(3)), container);
        for text in ["File too large", "File size limit exceeded"] {
            assert_eq!(hint(Termination::Exit(1), text, own, Some(3)), container);
        }
    }
    let own = hint(Termination::Exit(1), "File too large", Some(3), Some(4));
    assert!(own.contains("--max-file-size"), "{own}");
}

#[test]
fn a_kill_for_lack_of_memory_names_the_containers_limit() {
    let limit = |is_own| Bound { amount: 256 << 20, source: "a file".to_owned(), is_own };
    for end in [signal(SIGKILL), Termination::Exit(137)] {
        let text = |is_own| {
            let kill = OomKill { limit: limit(is_own) };
            hint_with("{cpu: unlimited}", end, "", Some(&kill))
        };
        let own = "because the container reached its memory limit of 256Mi (a file): raise";
        assert!(text(true).contains(own), "{}", text(true));
        assert!(text(false).contains("and the node has 256Mi (a file)"), "{}", text(false));
    }
}

#[test]
fn a_crash_with_little_memory_gets_a_hint() {
    for end in [signal(11), signal(6), Termination::Exit(133)] {
        let text = hint("{memory: 1}", end, "");
        assert!(text.ends_with("1 bytes: raise the plugin's spec.limits.memory]"), "{text}");
    }
    assert_eq!(hint("{}", signal(15), ""), "", "a signal from outside");
}

#[test]
fn a_server_that_refuses_has_a_remedy_after_what_the_sandbox_refuses() {
    let unknown = "x509: certificate signed by unknown authority";
    let shown = hint("{}", Termination::Exit(1), unknown);
    assert!(shown.starts_with(" [it does not know the authority"), "{shown}");
    let closed = format!("open /keys/ca.pem: permission denied\n{unknown}");
    let shown = hint("{}", Termination::Exit(1), &closed);
    assert!(shown.contains("add /keys/ca.pem to spec.sandbox.read"), "{shown}");
}

#[test]
fn a_limit_that_is_all_memory_of_requests_names_the_container() {
    let exceeded =
        Termination::LimitExceeded { what: ExceededLimit::Memory, limit: Some(1), used: None };
    for (end, stderr) in [(signal(11), ""), (exceeded, ""), (Termination::Exit(1), "MemoryError")] {
        let hint = |memory| hint_after([1, 0, memory], ("{}", end), stderr, None);
        let first = "give the plugin a spec.limits.memory, but first raise the container's \
                     resources.limits.memory, because all requests together have no more]";
        assert!(hint(1).ends_with(first), "{}", hint(1));
        assert!(hint(2).ends_with("give the plugin a spec.limits.memory]"), "{}", hint(2));
    }
}

#[test]
fn a_limit_of_the_request_names_the_remedy() {
    for (what, key, flag) in [
        (ExceededLimit::Memory, "memory", "--max-memory"),
        (ExceededLimit::Disk, "disk", "--max-disk"),
        (ExceededLimit::Files, "files", "--max-files"),
        (ExceededLimit::Processes, "processes", "--max-processes"),
    ] {
        let end = Termination::LimitExceeded { what, limit: Some(7), used: None };
        let general = format!(" [raise {flag}, or give the plugin a spec.limits.{key}]");
        assert_eq!(hint("{}", end, "no space left on device"), general);
        let own = format!(" [raise the plugin's spec.limits.{key}]");
        assert_eq!(hint(&format!("{{{key}: 7}}"), end, ""), own);
    }
    let end = |what| Termination::LimitExceeded { what, limit: Some(7), used: Some(5) };
    for (what, limit, key) in [
        (ExceededLimit::TotalMemory, "resources.limits.memory", "spec.limits.memory"),
        (ExceededLimit::TotalProcesses, "podPidsLimit", "spec.limits.processes"),
        (ExceededLimit::Container, "resources.limits.memory", "--max-memory"),
        (ExceededLimit::TotalPorts, "net.ipv4.ip_local_port_range", "spec.limits.requests"),
    ] {
        let text = hint("{}", end(what), "");
        assert!(text.contains(limit) && text.contains(key), "{text}");
        assert!(text.contains("--max-requests"), "{text}");
    }
    for (what, remedy) in [
        (ExceededLimit::Unmeasured, "nothing is measured if each of spec.limits.{memory, "),
        (ExceededLimit::HiddenFiles, "a lower spec.limits.fileSize"),
    ] {
        assert!(hint("{}", end(what), "").contains(remedy), "{what:?}");
    }
}

#[test]
fn messages_of_failed_calls_name_the_limit() {
    for (stderr, expected) in [
        ("sh: 1: Cannot fork", "--max-processes"),
        (
            "runtime: failed to create new OS thread (have 4 already; errno=11)\nfatal error: newosproc",
            "--max-processes",
        ),
        ("fork/exec /bin/x: resource temporarily unavailable", "--max-processes"),
        ("fatal error: runtime: out of memory", "--max-memory"),
        ("MemoryError", "--max-memory"),
        (
            "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or \
             process/resource limits reached",
            "--max-processes",
        ),
        ("RangeError: Array buffer allocation failed", "--max-memory"),
        ("RangeError: WebAssembly.Memory(): could not allocate memory", "--max-memory"),
        ("Unhandled exception. System.OutOfMemoryException", "--max-memory"),
        ("cat: write error: File too large", "--max-file-size"),
        ("mkdir: No space left on device", "the work volume is full"),
        (
            "dial tcp 1.2.3.4:8080: connect: permission denied",
            "TCP port 8080: it may connect to ports 22, 443: add",
        ),
    ] {
        let text = hint("{}", Termination::Exit(1), stderr);
        assert!(text.contains(expected), "{stderr}: {text}");
    }
}

#[test]
fn a_refused_process_names_the_limits_of_the_request_and_of_the_container() {
    let text = hint("{}", Termination::Exit(2), "sh: 1: Cannot fork");
    assert!(text.contains("it may have 2 processes and threads at a time: raise"), "{text}");
    assert!(text.contains("if it had fewer, a limit of the container or the Pod"), "{text}");
    assert_eq!(hint("{}", Termination::Exit(1), "Resource temporarily unavailable"), "");
}

#[test]
fn a_kill_from_outside_names_the_memory_only_if_it_may_be_the_cause() {
    let text = hint("{}", signal(SIGKILL), "");
    assert!(text.contains("look for `kill -9`") && !text.contains("raise"), "{text}");
    let limited = killed::from_outside(NoKill::Limited);
    assert!(limited.ends_with("raise the container's limit"), "{limited}");
    let unlimited = killed::from_outside(NoKill::Unlimited);
    assert!(unlimited.contains("no limit of its own: set one"), "{unlimited}");
    assert!(unlimited.contains("or a script says `kill -9`"), "{unlimited}");
}

#[test]
fn a_full_heap_of_java_names_its_own_limit_first() {
    let full = "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space";
    let text = hint("{memory: 1}", Termination::Exit(1), full);
    let own = "-XX:MaxRAMPercentage=75`, or add that to JDK_JAVA_OPTIONS; each of its processes";
    assert!(text.contains(own) && text.ends_with("spec.limits.memory]"), "{text}");
    let remote = "500: java.lang.OutOfMemoryError: Java heap space";
    assert!(!hint("{memory: 1}", Termination::Exit(1), remote).contains("Java heap is full"));
}

#[test]
fn too_many_open_files_are_told_from_other_limits() {
    for text in [
        "bash: x: Too many open files",
        "open x: too many open files",
        "Error: EMFILE: too many open files, open 'x'",
    ] {
        assert!(hint("{}", Termination::Exit(1), text).contains("4096 files open"), "{text}");
    }
    for other in [
        "Too many open files in system",
        "inotify_init: Too many open files",
        "failed to create fsnotify watcher: too many open files",
    ] {
        assert_eq!(hint("{}", Termination::Exit(1), other), "");
    }
}

#[test]
fn an_ordinary_failure_has_no_hint() {
    for stderr in [
        "no such chart",
        "open x: permission denied",
        "u@h: Permission denied (publickey)",
        "Error: admission webhook denied the request: reason OutOfMemory",
    ] {
        assert_eq!(hint("{}", Termination::Exit(1), stderr), "");
    }
}

#[test]
fn a_missing_program_has_a_remedy_by_name_and_by_path() {
    let remedy = |text| absent(text).unwrap_or_default();
    let by_name = remedy("exec: \"jb\": executable file not found in $PATH");
    assert!(by_name.ends_with("into a directory of PATH"), "{by_name}");
    let of_shell = remedy("exec: \"export\": executable file not found in $PATH");
    assert!(of_shell.starts_with("it is a command of the shell"), "{of_shell}");
    let by_path = remedy("fork/exec /opt/jb: no such file or directory");
    assert!(by_path.contains("mount it there"), "{by_path}");
    for other in ["fork/exec ./x: no such file or directory", "fork/exec /x: permission denied"] {
        assert_eq!(remedy(other), "");
    }
    let in_shell = |code, text| hint("{}", Termination::Exit(code), text);
    let for_bash = in_shell(2, "sh: 1: set: Illegal option -o pipefail\n");
    assert!(for_bash.contains("[the script is for bash"), "{for_bash}");
    let text = "cat: a: no such thing\nsh: 1: jb: not found\n";
    let remedy = " [put jb into the image, or mount it into a directory of PATH]";
    assert_eq!(in_shell(127, text), remedy);
    assert_eq!(in_shell(127, "sh: 1: exec: jb: not found\n"), remedy);
    assert!(in_shell(1, text).contains("left out"), "another command has failed");
    assert_eq!(in_shell(127, "gone"), "");
}

#[test]
fn a_discovery_that_finds_nothing_must_not_fail() {
    let (plugin, bounds) = (definition_of("x", "limits: {}"), Bounds::default());
    let hint = |phase, code, text| {
        let end = Termination::Exit(code);
        Hint::of_end(&Facts { phase, text, ..facts(&plugin, &bounds, end) })
    };
    assert_eq!(hint(Phase::Discover, 1, ""), Some(Hint(NO_MATCH.to_owned())));
    for other in [
        hint(Phase::Generate, 1, ""),
        hint(Phase::Discover, 2, ""),
        hint(Phase::Discover, 1, "find: no such option"),
    ] {
        assert_eq!(other, None);
    }
}

#[test]
fn a_file_that_lost_its_mode_has_a_remedy() {
    let text = "sh: 1: ./gen.sh: Permission denied\n";
    let lost = hint("{}", Termination::Exit(126), text);
    assert!(lost.contains("preserveFileMode"), "{lost}");
    let kept = hint("{}, preserveFileMode: true", Termination::Exit(126), text);
    assert!(kept.contains("git update-index --chmod=+x"), "{kept}");
    // dash has found it in PATH, or a directory of PATH is closed: both have this text.
    let named = hint("{}", Termination::Exit(127), "sh: 1: jb: Permission denied\n");
    assert!(named.starts_with(" [put jb into the image, or mount it into a directory"), "{named}");
    assert!(named.contains("; or, if jb is in a directory of PATH, make it exec"), "{named}");
}
