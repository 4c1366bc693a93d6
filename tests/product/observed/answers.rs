//! Metrics of requests.

use std::process::Command;

use crate::{observed::request::Observed, waiting::eventually};

fn code(plugin: &str, code: &str) -> String {
    format!(
        "grpc_server_handled_total{{plugin=\"{plugin}\",grpc_type=\"client_stream\",\
         grpc_service=\"plugin.ConfigManagementPluginService\",\
         grpc_method=\"GenerateManifest\",grpc_code=\"{code}\"}}"
    )
}

#[test]
fn a_request_is_counted_in_every_family_that_it_concerns() {
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo 'kind: A'";
    let observed = Observed::new(&[("good", script), ("bad", "exit 3")], &[]);
    let zeros =
        ["argocd_cmp_response_manifests_count{plugin=\"good\"}".to_owned(), code("good", "OK")];
    for series in &zeros {
        assert_eq!(observed.value(series), Some(0.0), "{series}");
    }
    assert!(observed.render("good").status.success());
    assert!(!observed.render("bad").status.success());
    let one = [
        code("good", "OK"),
        code("bad", "Unknown"),
        "argocd_cmp_stream_unpacked_bytes_count{plugin=\"good\"}".to_owned(),
        "argocd_cmp_stream_files_count{plugin=\"good\"}".to_owned(),
        "argocd_cmp_response_bytes_count{plugin=\"good\"}".to_owned(),
        "argocd_cmp_response_manifests_sum{plugin=\"good\"}".to_owned(),
        "argocd_cmp_request_peak_memory_bytes_count{plugin=\"good\"}".to_owned(),
        "argocd_cmp_request_limit_used_ratio_count{plugin=\"good\",limit=\"memory\"}".to_owned(),
        "argocd_cmp_requests_total{plugin=\"bad\",method=\"generate\",outcome=\"exit_nonzero\"}"
            .to_owned(),
    ];
    for series in &one {
        eventually(series, || observed.value(series) == Some(1.0));
    }
    let cpu = ["user", "system"].map(|mode| {
        let series = "argocd_cmp_command_cpu_seconds_total{plugin=\"good\",mode=";
        observed.value(&format!("{series}\"{mode}\"}}")).unwrap()
    });
    assert!(cpu.iter().sum::<f64>() > 0.0 && cpu.iter().all(|seconds| *seconds < 60.0), "{cpu:?}");
    for series in ["process_resident_memory_bytes", "process_open_fds"] {
        assert!(observed.value(series).unwrap() > 1.0, "{series}");
    }
    for resource in ["memory", "leases", "requests", "queue"] {
        let series = format!("argocd_cmp_budget_used{{resource=\"{resource}\"}}");
        assert!(observed.value(&series).is_some(), "{series}");
    }
}

#[test]
fn no_resource_is_short_while_nothing_waits() {
    let observed = Observed::new(&[("good", "echo 'kind: A'")], &[]);
    assert!(observed.render("good").status.success());
    for resource in ["memory", "processes", "requests"] {
        let series = format!("argocd_cmp_budget_short{{resource=\"{resource}\"}}");
        assert_eq!(observed.value(&series), Some(0.0), "{series}");
    }
}

/// A shell that is stopped has not waited for its children.
#[test]
fn the_processor_time_of_a_command_that_is_stopped_is_counted_with_its_children() {
    let plugins = [("busy", "sh -c 'while :; do :; done'; echo 'kind: A'")];
    let observed = Observed::new(&plugins, &["--exec-timeout", "4s"]);
    assert!(!observed.render("busy").status.success());
    let series = "argocd_cmp_command_cpu_seconds_total{plugin=\"busy\",mode=\"user\"}";
    // The shell itself uses some milliseconds.
    eventually("the time of its child", || observed.value(series).unwrap() > 0.1);
}

/// The kernel tells it at the end of the process, after the supervisor has measured it.
#[test]
fn the_processor_time_of_a_command_that_is_stopped_is_counted_once() {
    let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; times >&2; exec sleep 60";
    let observed = Observed::new(&[("stopped", script)], &["--exec-timeout", "6s"]);
    let rendered = observed.render("stopped");
    let stderr = String::from_utf8_lossy(&rendered.stderr);
    let told = stderr.split_whitespace().filter_map(|word| {
        let (minutes, seconds) = word.trim_end_matches(']').strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    });
    let told: f64 = told.take(2).sum();
    assert!(told > 0.1, "{stderr}");
    let counted = || {
        let modes = ["user", "system"].map(|mode| {
            let series = "argocd_cmp_command_cpu_seconds_total{plugin=\"stopped\",mode=";
            observed.value(&format!("{series}\"{mode}\"}}")).unwrap()
        });
        modes.iter().sum::<f64>()
    };
    let ended = "argocd_cmp_request_peak_memory_bytes_count{plugin=\"stopped\"}";
    eventually("the end of its last process", || observed.value(ended) == Some(1.0));
    let counted = counted();
    assert!(counted > 0.9 * told && counted < 1.5 * told, "{counted} of {told}");
}

#[test]
fn causes_of_failures_have_metrics() {
    let plugins = [("missing", ""), ("long", "yes 'kind: A'"), ("slow", "sleep 60")];
    let observed = Observed::new(&plugins, &["--max-output", "1Mi", "--exec-timeout", "5s"]);
    let definition = observed.folders.plugins().join("missing.yaml");
    let text = std::fs::read_to_string(&definition).unwrap().replace("[sh, -c", "[no-such, -c");
    std::fs::write(&definition, text).unwrap();
    assert_eq!(observed.server.ask("POST", "/-/reload").0, 200);
    for (plugin, series) in [
        ("missing", "argocd_cmp_commands_not_started_total{plugin=\"missing\"}"),
        ("long", "argocd_cmp_process_kills_total{plugin=\"long\",reason=\"output_limit\"}"),
        ("slow", "argocd_cmp_process_kills_total{plugin=\"slow\",reason=\"exec_timeout\"}"),
    ] {
        assert_eq!(observed.value(series), Some(0.0), "{series}");
        assert!(!observed.render(plugin).status.success(), "{plugin}");
        eventually(series, || observed.value(series) == Some(1.0));
    }
    let timeouts = "argocd_cmp_timeouts_total{plugin=\"slow\",method=\"generate\",\
                    phase=\"generate\",kind=\"exec_timeout\"}";
    assert_eq!(observed.value(timeouts), Some(1.0));
}

/// Any author of an application could otherwise raise the alarm about a plugin.
#[test]
fn a_variable_that_no_program_can_have_is_no_missing_program() {
    let observed = Observed::new(&[("fine", "echo 'kind: A'")], &[]);
    let long = "exec \"$0\" \"$@\" --env \"LONG=$(head -c 131062 /dev/zero | tr '\\0' x)\"";
    let mut command = Command::new("sh");
    command.args(["-c", long, env!("CARGO_BIN_EXE_cmp-supervisor")]);
    let rendered = observed.render_with(command, "fine");
    let stderr = String::from_utf8_lossy(&rendered.stderr);
    assert!(stderr.contains("argument list too long"), "{stderr}");
    let series =
        "argocd_cmp_requests_total{plugin=\"fine\",method=\"generate\",outcome=\"exit_nonzero\"}";
    eventually(series, || observed.value(series) == Some(1.0));
    let series = "argocd_cmp_commands_not_started_total{plugin=\"fine\"}";
    assert_eq!(observed.value(series), Some(0.0));
}
