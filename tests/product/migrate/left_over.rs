//! A plugin.yaml that stays at the path of argocd-cmp-server.

use std::{path::Path, process::Command};

use tempfile::TempDir;

use super::{
    result::{migrated, program},
    strange::TWO,
};
use crate::skip::skip;

/// Serves in a root directory of its own: $ROOT has the directories of this machine, and
/// `/home` and $PLUGINS of the container.
const SERVE: &str = r#"set -e
mount -t tmpfs root "$ROOT"
for path in /*; do
  case $path in /home) continue ;; esac
  if [ -L "$path" ]; then cp -P "$path" "$ROOT/"
  elif [ -d "$path" ]; then mkdir "$ROOT$path"; mount --rbind "$path" "$ROOT$path"
  fi
done
cmp=$ROOT/home/argocd/cmp-server
mkdir -p "$cmp/config" "$cmp/plugins" "$ROOT$PLUGINS" "$ROOT/home/app" "$ROOT/home/work"
chown -R 999 "$cmp/plugins"
printf %s "$OLD" > "$cmp/config/plugin.yaml"
printf %s "$NEW" > "$ROOT$PLUGINS/a.yaml"
echo 'kind: New' > "$ROOT/home/app/a.yaml"
chroot "$ROOT" "$BIN" "$@" --isolation none --accept-no-isolation --http off --work-dir /home/work &
socket=/home/argocd/cmp-server/plugins/a.sock
for attempt in $(seq 300); do [ -S "$ROOT$socket" ] && break; sleep 0.1; done
status=0
chroot "$ROOT" "$BIN" render /home/app --plugin a --socket "$socket" || status=$?
kill $! && wait $! || true
exit $status
"#;

const OLD: &str = "kind: ConfigManagementPlugin\nmetadata: {name: a}\nspec: {generate: {command: [echo, 'kind: Old']}}\n";

#[test]
fn the_new_definition_is_served_beside_an_old_one() {
    let result = migrated(&[], TWO);
    let container = result.sidecar();
    let mut mounts = container["volumeMounts"].as_array().unwrap().iter();
    let plugins = mounts.find(|mount| mount["name"] == "cmp-plugins").unwrap();
    let arguments = container["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap());
    let arguments: Vec<_> = arguments.filter(|flag| !flag.starts_with("--isolation")).collect();
    if !rustix::process::geteuid().is_root() || !Path::new("/usr/bin/unshare").exists() {
        return skip("needs root and unshare");
    }
    let root = TempDir::with_prefix("cmp-root-").unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SERVE, "sh"]).args(arguments);
    command.env("ROOT", root.path()).env("BIN", program().get_program()).env("OLD", OLD);
    command.env("NEW", &result.definitions()["a.yaml"]);
    command.env("PLUGINS", plugins["mountPath"].as_str().unwrap());
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && shown.contains("kind: New"), "{shown}{log}");
}
