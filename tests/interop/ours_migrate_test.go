package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"
)

// sidecars are the manifests of a repo-server with one sidecar for each plugin.
// Each has the variable GREETING.
func sidecars(definitions ...plugin.Definition) string {
	var containers, volumes, configMaps strings.Builder
	for _, d := range definitions {
		fmt.Fprintf(&containers, `
        - name: %[1]s
          image: registry.example/tools:v1
          command: [/var/run/argocd/argocd-cmp-server]
          env: [{name: GREETING, value: hello}]
          volumeMounts:
            - {name: var-files, mountPath: /var/run/argocd}
            - {name: plugins, mountPath: /home/argocd/cmp-server/plugins}
            - {name: %[1]s, mountPath: /home/argocd/cmp-server/config/plugin.yaml, subPath: plugin.yaml}`, d.Name)
		fmt.Fprintf(&volumes, "\n        - {name: %[1]s, configMap: {name: %[1]s}}", d.Name)
		text := strings.ReplaceAll(d.YAML(), "\n", "\n    ")
		fmt.Fprintf(&configMaps, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata:\n  plugin.yaml: |\n    %s\n", d.Name, text)
	}
	return `apiVersion: apps/v1
kind: Deployment
metadata: {name: argocd-repo-server}
spec:
  template:
    spec:
      containers:
        - name: argocd-repo-server
          image: registry.example/argocd:v3.2.1` + containers.String() + `
      volumes:
        - {name: var-files, emptyDir: {}}
        - {name: plugins, emptyDir: {}}` + volumes.String() + "\n" + configMaps.String()
}

// check runs `migrate --check` with the peer in PATH.
func check(t *testing.T, more []string, definitions ...plugin.Definition) (stdout, stderr string, code int) {
	t.Helper()
	binary, err := peerBinary()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(binary)+":/usr/bin:/bin")
	app := repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"})
	manifests := filepath.Join(t.TempDir(), "repo-server.yaml")
	if err := os.WriteFile(manifests, []byte(sidecars(definitions...)), 0o644); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, err = command(t, app, append([]string{"migrate", manifests, "--check", app.Path}, more...)...)
	if err == nil {
		return stdout, stderr, 0
	}
	exit, ended := err.(*exec.ExitError)
	if !ended {
		t.Fatal(err)
	}
	return stdout, stderr, exit.ExitCode()
}

// equal prints the same everywhere: two files, a variable of the sidecar, one of
// Argo CD, and a result of init.
var equal = plugin.Definition{Name: "equal", Version: "v1.0", Spec: `
init: {command: [sh, -c, "cp app.yaml copy"]}
discover: {fileName: app.yaml}
generate: {command: [sh, -c, 'cat app.yaml; echo "greeting: ${GREETING:?} $ARGOCD_APP_NAME"; echo ---; cat copy']}
`}

func TestOursMigrateFindsEqualResults(t *testing.T) {
	needsOurs(t)
	other := plugin.Definition{Name: "other", Spec: "discover: {fileName: nothing.yaml}\ngenerate: {command: [sh, -c, 'exit 3']}\n"}
	stdout, stderr, code := check(t, nil, equal, other)
	if code != 0 || !strings.Contains(stdout, "equal-v1.0.yaml: |") {
		t.Errorf("expected success and the new ConfigMap, got the code %d, stdout %q", code, stdout)
	}
	told(t, stderr, "old equal-v1.0 by argocd-cmp-server", "new equal-v1.0 by cmp-supervisor", "same result of equal-v1.0", "left out other does not claim the application")
}

func TestOursMigrateShowsADifferentResult(t *testing.T) {
	needsOurs(t)
	// The work directory is not the same, and a careless plugin prints it.
	different := plugin.Definition{Name: "different", Spec: "discover: {fileName: app.yaml}\ngenerate: {command: [sh, -c, 'cat app.yaml; echo \"home: $PWD\"']}\n"}
	stdout, stderr, code := check(t, nil, equal, different)
	if code != 1 || !strings.Contains(stdout, "different.yaml: |") {
		t.Errorf("expected the code 1 and the new ConfigMap, got %d, stdout %q", code, stdout)
	}
	told(t, stderr, "same result of equal-v1.0", "--- argocd-cmp-server\n+++ cmp-supervisor\n", "-home: ", "+home: ", "a result is not the same after the migration: different: ")
}

func TestOursMigrateNamesTheServerThatFails(t *testing.T) {
	needsOurs(t)
	for server, script := range map[string]string{
		// Both fail, and the error names the first one.
		"argocd-cmp-server": "echo too little >&2; exit 3",
		// Only argocd-cmp-server passes on variables that nobody gave to the plugin.
		"cmp-supervisor": "test $ARGOCD_CMP_WORKDIR || { echo too little >&2; exit 3; }; cat app.yaml",
	} {
		t.Run(server, func(t *testing.T) {
			failing := plugin.Shell("failing", script)
			_, stderr, code := check(t, []string{"--check-plugin", "failing"}, failing)
			if code != 5 {
				t.Errorf("expected the code 5 of a failing plugin, got %d", code)
			}
			told(t, stderr, "error: failing by "+server+": ", "failed exit status 3: too little")
		})
	}
}

// told checks that a report contains all the texts, in this order.
func told(t *testing.T, report string, texts ...string) {
	t.Helper()
	rest := report
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Fatalf("expected a report with %q, got %q", texts, report)
		}
		rest = after
	}
}
