package interop

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"
)

// command runs cmp-supervisor to its end, in the application's directory.
func command(t *testing.T, app client.App, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	run := exec.CommandContext(ctx, needsOurs(t).Binary, arguments...)
	run.Dir = app.Path
	var out, errors bytes.Buffer
	run.Stdout, run.Stderr = &out, &errors
	err = run.Run()
	return out.String(), errors.String(), err
}

func TestOursRendersThroughAnyServersSocket(t *testing.T) {
	needsOurs(t)
	for name, start := range map[string]func(*testing.T, ...plugin.Definition) subject{"peer": peer, "ours": ours} {
		t.Run(name, func(t *testing.T) {
			s := start(t, streaming)
			app := repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"})
			stdout, stderr, err := command(t, app, "render", app.Path, "--socket", s.Socket(streaming))
			if err != nil || !strings.Contains(stdout, "kind: App") {
				t.Errorf("expected the manifest on stdout, got %q, error %v, stderr %q", stdout, err, stderr)
			}
		})
	}
}

func TestOursRendersALocalDirectory(t *testing.T) {
	needsOurs(t)
	open, err := os.MkdirTemp(scratch, "p")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	// Root's home and the directories of t.TempDir are closed to other UIDs.
	for name, plugins := range map[string]string{"open to all": open, "open to the caller alone": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(plugins, "streaming.yaml"), []byte(streaming.YAML()), 0o644); err != nil {
				t.Fatal(err)
			}
			app := repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"})
			for _, verb := range []struct{ name, want string }{{"render", "kind: App"}, {"match", streaming.Name}, {"params", "a"}} {
				stdout, stderr, err := command(t, app, verb.name, app.Path, "--plugins-dir", plugins)
				if err != nil || !strings.Contains(stdout, verb.want) {
					t.Errorf("%s: expected %q on stdout, got %q, error %v, stderr %q", verb.name, verb.want, stdout, err, stderr)
				}
			}
		})
	}
}

func TestOursAnswersUnderThePeersName(t *testing.T) {
	// The environment names the socket directory; in the second run, also the file.
	link := filepath.Join(t.TempDir(), "argocd-cmp-server")
	if err := os.Symlink(needsOurs(t).Binary, link); err != nil {
		t.Fatal(err)
	}
	for _, binary := range []string{needsOurs(t).Binary, link} {
		server, err := sut.StartNamesake(binary, scratch, streaming)
		if err != nil {
			t.Fatal(err)
		}
		got, err := stopped(t, server).generate(t, streaming, repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"}))
		rendered(t, got, err, `{"kind":"App"}`)
	}
}
