package interop

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"

	"github.com/argoproj/argo-cd/v3/util/askpass"
)

// servedAs is the user of the repo-server and of the sidecar.
const servedAs = 999

var askPassBinary = sync.OnceValues(func() (string, error) { return buildHere("argocd-git-ask-pass") })

// openDirectory makes a directory that every UID can enter.
func openDirectory(t *testing.T, where string) string {
	t.Helper()
	directory, err := os.MkdirTemp(where, "interop-ask-pass-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	return directory
}

// credentials starts Argo CD's own server for git credentials, and returns the
// variables that a repo-server would send for a repository.
func credentials(t *testing.T) []string {
	t.Helper()
	socket := filepath.Join(openDirectory(t, scratch), "reposerver-ask-pass.sock")
	server := askpass.NewServer(socket)
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(socket, servedAs, servedAs); err != nil {
			t.Fatal(err)
		}
	}
	return server.Environ(server.Add("someone", "a-password"))
}

// asking prints what Argo CD's helper and the program that git starts answer.
func asking(t *testing.T) (plugin.Definition, string) {
	t.Helper()
	built, err := askPassBinary()
	if err != nil {
		t.Fatal(err)
	}
	// Not in the scratch directory: plugins never read below /dev.
	directory := openDirectory(t, "/tmp")
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	helper, err := sut.Reachable(built, directory)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Definition{Name: "asking", Spec: `
provideGitCreds: true
sandbox: {read: [` + helper + `]}
generate:
  command: [sh, -c]
  args:
  - |
    echo 'kind: Asked'
    echo "user: '$("$ARGOCD_ENV_HELPER" "Username for 'https://example.com'" 2>&1)'"
    echo "password: '$("$ARGOCD_ENV_HELPER" "Password for 'https://someone@example.com'" 2>&1)'"
    "$ARGOCD_ENV_HELPER" "Passphrase" >/dev/null 2>&1
    echo "other: $?"
`}, helper
}

const asked = `{"kind":"Asked","other":20,"password":"a-password","user":"someone"}`

func TestArgoCDsHelperGetsGitCredentials(t *testing.T) {
	d, helper := asking(t)
	onEach(t, func(t *testing.T, s subject) {
		if s.isOurs() && os.Getenv(oursIsolation) == "landlock" {
			t.Skip("skipped: the tier landlock has no sockets, so Argo CD's helper cannot ask")
		}
		app := with(repositoryOf(t, tree.Files{"x": ""}), append(credentials(t), "ARGOCD_ENV_HELPER="+helper)...)
		got, err := s.generate(t, d, app)
		rendered(t, got, err, asked)
	}, d)
}

func TestOursHelperAnswersAsArgoCDs(t *testing.T) {
	d, _ := asking(t)
	d.Spec = strings.ReplaceAll(d.Spec, "$ARGOCD_ENV_HELPER", "$GIT_ASKPASS")
	s := ours(t, d)
	got, err := s.generate(t, d, with(repositoryOf(t, tree.Files{"x": ""}), credentials(t)...))
	rendered(t, got, err, asked)
}
