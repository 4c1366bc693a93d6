//! Caches that grow, or that are hard to look at.

use crate::{
    container::Container,
    manifest::shipped,
    plugin::Plugin,
    processes::Process,
    request::Call,
    running::{PATIENCE, Running},
    turn,
};

/// Bytes that are more than a cache may have in a volume of 256 MiB, and that are
/// left of an emptied one.
const MUCH: u64 = 100 << 20;
const LITTLE: u64 = 10 << 20;

fn plugin(script: &str) -> Plugin {
    Plugin::new("hoarder", script).spec("sandbox: {caches: [{name: a, env: STORE}]}")
}

/// Runs a script that leaves too much in its cache, and expects that the cache is
/// emptied.
fn assert_emptied(script: &str) {
    let container = Container::new().volume_in_memory("256Mi");
    let Some(pod) = container.start(&[plugin(script)], &[]) else { return };
    pod.request("hoarder").generate().unwrap();
    pod.until("an empty cache", |pod| pod.used().bytes < LITTLE);
    pod.until("the end of the tenants", |pod| pod.tenants().is_empty());
    assert!(pod.request("victim").generate().is_ok());
}

#[test]
fn closed_directories_do_not_hide_the_size_of_a_cache() {
    assert_emptied(&format!(
        "mkdir -p $STORE/a/b && head -c {MUCH} /dev/zero > $STORE/a/b/file && \
         chmod 0 $STORE/a/b $STORE/a; echo 'a: b'"
    ));
}

#[test]
fn many_levels_do_not_hide_the_size_of_a_cache() {
    assert_emptied(&format!(
        "cd $STORE; i=0; while [ $i -lt 70 ]; do mkdir d && cd d; i=$((i+1)); done; \
         head -c {MUCH} /dev/zero > file; echo 'a: b'"
    ));
}

#[test]
fn bytes_added_to_files_of_an_earlier_request_count() {
    let script = format!(
        "cd $STORE; if [ ! -e file ]; then echo x > file; \
         elif [ -w file ]; then head -c {MUCH} /dev/zero >> file; sleep 8; fi; echo 'a: b'"
    );
    let container = Container::new().volume_in_memory("256Mi");
    let hoarder = plugin(&script).spec("limits: {disk: 64Mi}");
    let Some(pod) = container.start(&[hoarder], &[]) else { return };
    pod.request("hoarder").generate().unwrap();
    pod.until("the end of the first request", |pod| pod.tenants().is_empty());
    pod.until("a file that the next request may change", |pod| {
        let answer = pod.request("hoarder").generate();
        answer.is_err_and(|error| error.contains("of disk"))
    });
    assert!(pod.request("victim").generate().is_ok());
}

/// Entries of a cache. A debug build gets fewer.
const ENTRIES: usize = if cfg!(debug_assertions) { 60_000 } else { 190_000 };

/// Requests after the one that has filled the cache.
const REQUESTS: usize = 70;

/// Requests whose files are worked on at the same time.
const TURNS: usize = 4;

/// Sends short requests together. Returns the most processes that worked on files
/// at the same time.
fn send(pod: &Running) -> usize {
    let mut most = 0;
    let request = pod.request("hoarder");
    let calls: Vec<Call> = (0..REQUESTS).map(|_| request.start()).collect();
    while !calls.iter().all(Call::has_ended) {
        most = most.max(cleaners(pod));
    }
    for call in calls {
        call.wait().unwrap();
    }
    most
}

/// Processes that work on files of ended requests under a tenant's UID. Those that wait for
/// their turn sleep, and those that kill have another real UID.
fn cleaners(pod: &Running) -> usize {
    let is_cleaner = |tenant: &&Process| {
        tenant.name == "cmp-ender"
            && tenant.uid == tenant.effective_uid
            && matches!(tenant.state, 'R' | 'D')
    };
    pod.tenants().iter().filter(is_cleaner).count()
}

#[test]
fn a_large_cache_does_not_delay_others() {
    let _turn = turn::take();
    let fill = format!(
        "import os
for i in range({}):
 os.mkdir(\"%d\" % i)
 for j in range(99): open(\"%d/%d\" % (i, j), \"w\")
",
        ENTRIES / 100
    );
    let script = format!(
        "cd $STORE; if [ $ARGOCD_ENV_FILL ]; then python3 -c '{fill}'; touch full; fi; \
         [ -e full ] && echo '{{a: 1}}'"
    );
    let Some(pod) = shipped().0.start(&[plugin(&script)], &[]) else { return };
    pod.request("hoarder").variable("FILL", "1").generate().unwrap();
    // Its files move into the cache after the answer, and a request that filled it again
    // would take as long as the first.
    pod.until("a full cache", |pod| pod.request("hoarder").generate().is_ok());
    pod.until("the end of the first requests", |pod| pod.tenants().is_empty());
    assert!(pod.used().files > ENTRIES as u64, "{} entries", pod.used().files);
    let victim = pod.victim();
    let most = send(&pod);
    let seen = victim.end();
    println!("{most} cleaners at a time\n{seen}");
    pod.until("the end of the tenants", |pod| pod.tenants().is_empty());
    seen.assert_unharmed(PATIENCE);
    // Some may be seen before they wait for their turn, or when it is over.
    assert!(most > 0, "no process that works on files was seen");
    assert!(most <= TURNS * 3, "{most} processes worked on files at the same time");
}
