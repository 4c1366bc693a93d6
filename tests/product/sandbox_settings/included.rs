//! The part of a repository that a plugin gets.

use std::{fs, os::unix::fs::symlink};

use crate::sandbox_settings::bench::{Bench, tiers};

/// Prints the files of the repository as one manifest.
const LIST: &str = "cd \"$(dirname \"$PWD\")\"; echo 'kind: A'; \
                    echo \"files: '$(find . -type f -o -type l | LC_ALL=C sort | tr '\\n' ' ')'\"";

/// A repository with two applications and a directory that they share.
fn bench(include: &str, script: &str) -> Bench {
    let bench = Bench::new(&format!("  workspace: {{include: {include}}}"), script);
    for path in ["app/charts/a/Chart.yaml", "other/y", "shared/deep/z", "shared.txt"] {
        let path = bench.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "text").unwrap();
    }
    bench
}

fn whole(bench: &Bench) -> String {
    bench.path("").display().to_string()
}

#[test]
fn other_entries_are_left_out() {
    for tier in tiers() {
        for (include, files) in [
            ("['.']", "./app/charts/a/Chart.yaml ./app/x "),
            ("[x, /shared]", "./app/x ./shared/deep/z "),
            ("['**/Chart.yaml', '/**/z']", "./app/charts/a/Chart.yaml ./shared/deep/z "),
            ("['/s*']", ""),
        ] {
            let bench = bench(include, LIST);
            let rendered = bench.render(tier, &["--repo-root", &whole(&bench)]);
            if files.is_empty() {
                let error = rendered.error();
                assert!(error.contains("are left out"), "{tier}: {error}");
            } else {
                assert_eq!(rendered.value("files"), files, "{tier} {include}");
            }
        }
    }
}

#[test]
fn a_missing_file_and_a_link_to_nothing_are_explained() {
    let bench = bench("['.']", "cat linked; cat ../shared.txt");
    symlink("../other/y", bench.path("app/linked")).unwrap();
    let rendered = bench.render("none", &["--repo-root", &whole(&bench)]);
    let error = rendered.error();
    for words in [
        "No such file",
        "`app/linked` is a link to `other/y`",
        "the plugin's spec.workspace.include",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn an_archive_is_refused_for_what_is_left_out_too() {
    let bench = bench("['.']", "echo 'kind: A'");
    symlink("../../outside", bench.path("other/link")).unwrap();
    let rendered = bench.render("none", &["--repo-root", &whole(&bench)]);
    assert!(rendered.error().contains("other/link"), "{}", rendered.error());
}

#[test]
fn invalid_patterns_are_refused_with_their_place() {
    let bench = bench("['.', '../x', 'a[b]']", "echo 'kind: A'");
    let error = bench.render("none", &[]).stderr;
    for words in ["column 30: CMP0117", "spec.workspace.include[1]", "spec.workspace.include[2]"] {
        assert!(error.contains(words), "{words}: {error}");
    }
}
