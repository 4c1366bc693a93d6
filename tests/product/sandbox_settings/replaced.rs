//! Files of volumes that the kubelet replaces while requests run.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use cmp_supervisor::grpc::{Client, Parcel};
use nix::{sys::stat::Mode, unistd::mkfifo};

use crate::{
    reload::{
        kubelet::{Age, FakeKubelet, Payload, payload},
        loaded::definition,
    },
    sandbox_settings::{
        bench::{Bench, isolating_tiers, tiers},
        reading::reading,
    },
    waiting::eventually,
};

/// Most versions of a volume: those of some minutes.
const MOST: u32 = 20_000;

/// A bench whose plugin may read one of the two files of a volume, and the volume.
fn bench(script: &str) -> (Bench, FakeKubelet) {
    let bench = Bench::new("", "true");
    let volume = bench.path("data");
    fs::create_dir(&volume).unwrap();
    fs::set_permissions(&volume, fs::Permissions::from_mode(0o755)).unwrap();
    let file = volume.join("file");
    bench.add("tried", &reading(&file), &script.replace("FILE", &file.display().to_string()));
    let mut kubelet = FakeKubelet::new(&volume, Age::New);
    kubelet.publish(version(1));
    (bench, kubelet)
}

fn version(number: u32) -> Payload {
    payload([("file", format!("v{number}")), ("other", format!("o{number}"))])
}

/// Sends the archive of a request, and does something when half of it has arrived and a
/// worker has access to its files.
fn generate_while(bench: &Bench, halfway: impl FnOnce()) -> String {
    let mut noise = vec![0; 512 << 10];
    File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    fs::write(bench.path("app/noise"), noise).unwrap();
    let parcel = bench.parcel();
    let bytes = fs::read(&parcel.archive).unwrap();
    let archive = bench.path("fifo");
    mkfifo(&archive, Mode::S_IRWXU).unwrap();
    let parcel = Parcel { archive: archive.clone(), ..parcel };
    let socket = bench.path("sockets/tried.sock");
    thread::scope(|scope| {
        let request = scope.spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut client = Client::connect(&socket).await.unwrap();
                client.generate(&parcel).await.map_err(|error| error.to_string())
            })
        });
        let mut pipe = File::options().write(true).open(&archive).unwrap();
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        pipe.write_all(first).unwrap();
        let workspaces = bench.path("work/_cmp_server");
        eventually("a file", || has_file(&workspaces));
        halfway();
        pipe.write_all(rest).unwrap();
        drop(pipe);
        let manifests = request.join().unwrap().unwrap();
        String::from_utf8(manifests.concat()).unwrap()
    })
}

/// True if a request has unpacked a part of its archive.
fn has_file(workspaces: &Path) -> bool {
    let workspaces = fs::read_dir(workspaces).into_iter().flatten().flatten();
    let mut repositories = workspaces.flat_map(|entry| fs::read_dir(entry.path().join("repo")));
    repositories.any(|mut entries| entries.next().is_some())
}

#[test]
fn a_command_can_read_files_that_were_replaced_before_it_began() {
    for tier in isolating_tiers() {
        let (bench, mut kubelet) = bench("echo 'kind: A'; echo \"data: '$(cat FILE 2>&1)'\"");
        let server = bench.serve(tier, &[]);
        let manifest = generate_while(&bench, || kubelet.publish(version(2)));
        // With a root of its own, a request keeps the version of its start.
        let expected = if tier == "namespaces" { "v1" } else { "v2" };
        assert!(manifest.contains(expected), "{tier}: {manifest}\n{}", server.log());
    }
}

#[test]
fn a_command_that_misses_a_replaced_file_learns_the_reason() {
    for tier in isolating_tiers().filter(|tier| *tier != "namespaces") {
        let (bench, mut kubelet) = bench(
            "touch $TMPDIR/began; for i in $(seq 600); do sleep 0.1; cat FILE > /dev/null 2>&1 || \
             break; done; cat FILE",
        );
        let server = bench.serve(tier, &[]);
        let rendered = thread::scope(|scope| {
            let request = scope.spawn(|| bench.ask("tried", &[]));
            let began = || {
                let names = fs::read_dir(bench.path("work/_cmp_server")).unwrap().flatten();
                names.map(|entry| entry.path().join("tmp/began")).any(|path| path.exists())
            };
            eventually("the command", began);
            kubelet.publish(version(2));
            request.join().unwrap()
        });
        let volume = bench.path("data");
        let volume = volume.display();
        let expected = format!(
            "{volume} was replaced while the command ran: name {volume} itself in spec.sandbox.read"
        );
        assert!(
            rendered.error().contains(&expected),
            "{tier}: {}\n{}",
            rendered.error(),
            server.log()
        );
    }
}

#[test]
fn changes_beside_definitions_fail_no_request_in_namespaces() {
    if !tiers().contains(&"namespaces") {
        return;
    }
    let bench = Bench::new("", "true");
    let plugins = bench.path("plugins");
    fs::remove_file(plugins.join("tried.yaml")).unwrap();
    let mut kubelet = FakeKubelet::new(&plugins, Age::New);
    let files = |number: u32| {
        let script = ("script.sh", format!("echo {number}"));
        payload([("a.yaml", definition("a", "true")), script])
    };
    kubelet.publish(files(0));
    let server = bench.serve("namespaces", &[]);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Bounded, because it ends after a failed request, too.
            for number in 1..MOST {
                kubelet.publish(files(number));
                thread::sleep(Duration::from_millis(10));
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let answers: Vec<_> = (0..40).map(|_| bench.ask("a", &[])).collect();
        is_done.store(true, Ordering::Relaxed);
        for answer in answers {
            assert_eq!(answer.code, Some(0), "{}\n{}", answer.stderr, server.log());
        }
    });
}
