//! `render` under the umask of a hardened machine.

use std::{fs, process::Command};

use tempfile::TempDir;

/// Started as root, the private supervisor has another UID than its files.
#[test]
fn render_works_where_new_files_are_private() {
    let place = TempDir::with_prefix("cmp-umask-").unwrap();
    let at = |name: &str| place.path().join(name);
    let definition = "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\n\
                      metadata: {name: a}\nspec: {generate: {command: [sh, -c, 'cat x']}}\n";
    fs::create_dir(at("app")).unwrap();
    fs::write(at("app/x"), "said: done\n").unwrap();
    fs::create_dir(at("plugins")).unwrap();
    fs::write(at("plugins/a.yaml"), definition).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_cmp-supervisor")]);
    command.args(["render", "app", "--isolation", "none", "--plugins-dir", "plugins"]);
    let output = command.current_dir(place.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(output.stdout, b"---\nsaid: done\n", "{stderr}");
}
