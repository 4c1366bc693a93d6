//! A work volume without free space or without free inodes.

use std::{fs, io::Write, time::Duration};

use crate::{
    container::Container,
    plugin::Plugin,
    running::{PATIENCE, Running},
    victim::Kind,
};

/// The kinds of calls that need no space.
const WITHOUT_FILES: [Kind; 2] = [Kind::MatchByNames, Kind::Live];

/// The error of a request while the volume is full, after which it works again.
///
/// `fill` is repeated: a request that ends after it frees what it used.
fn refused_until_free(pod: &Running, fill: impl Fn(), free: impl FnOnce()) -> String {
    let victim = pod.victim();
    let mut refusal = None;
    pod.until("a refusal", |pod| {
        fill();
        refusal = pod.request("victim").generate().err();
        refusal.is_some()
    });
    let error = refusal.unwrap();
    free();
    pod.until("the next answer", |pod| pod.request("victim").generate().is_ok());
    victim.end().assert_answered(&WITHOUT_FILES, PATIENCE);
    pod.assert_baseline();
    error
}

#[test]
fn a_full_volume_is_named_and_heals() {
    let container = Container::new().volume_in_memory("16Mi");
    let Some(pod) = container.start(&[], &[]) else { return };
    let path = pod.file("work/somebody-elses");
    let fill = || {
        let mut file = fs::File::options().create(true).append(true).open(&path).unwrap();
        // The last bytes do not fit.
        let _ = file.write_all(&vec![b'x'; 17 << 20]);
    };
    let error = refused_until_free(&pod, fill, || fs::remove_file(&path).unwrap());
    assert!(error.contains("/tmp"), "the volume is not named: {error}");
    assert!(error.contains("No space left") || error.contains("full"), "{error}");
}

#[test]
fn a_volume_without_inodes_is_named_and_heals() {
    let container = Container::new().volume_in_memory("16Mi").volume_files(300);
    let Some(pod) = container.start(&[], &[]) else { return };
    let folder = pod.file("work/somebody-elses");
    let fill = || {
        let _ = fs::create_dir(&folder);
        let is_full = |number: i32| fs::write(folder.join(number.to_string()), "").is_err();
        assert!((0..400).any(is_full), "the volume has inodes left");
    };
    let error = refused_until_free(&pod, fill, || fs::remove_dir_all(&folder).unwrap());
    assert!(error.contains("/tmp"), "the volume is not named: {error}");
    assert!(error.contains("No space left") || error.contains("inodes"), "{error}");
}

#[test]
fn a_request_that_fills_the_volume_leaves_it_empty() {
    let script = "dd if=/dev/zero of=big bs=64k 2>/dev/null; \
                  i=0; while [ $i -lt 3000 ]; do : > f$i || break; i=$((i+1)); done; sleep 2; exit 1";
    let container = Container::new().volume_in_memory("64Mi").volume_files(1500);
    let Some(pod) = container.start(&[Plugin::new("filler", script)], &[]) else { return };
    let victim = pod.victim();
    let answer = pod.request("filler").timeout(Duration::from_secs(30)).generate();
    victim.end().assert_answered(&WITHOUT_FILES, PATIENCE);
    assert!(answer.is_err(), "{answer:?}");
    pod.assert_baseline();
    pod.victim().end().assert_unharmed(PATIENCE);
}
