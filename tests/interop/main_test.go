// Package interop tests a plugin server with Argo CD's own client, plugin server
// and repo-server. See README.md.
package interop

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/sut"

	"github.com/sirupsen/logrus"
)

// The variables that select the binary to test.
const (
	oursBinary    = "CMP_SUPERVISOR_BIN"
	oursIsolation = "CMP_SUPERVISOR_ISOLATION"
)

// testsWanted is the variable whose value `all` makes a test fail that this
// machine lacks something for.
const testsWanted = "CMP_SUPERVISOR_TESTS"

// The variables that turn a copy of this program into a client to be killed.
const (
	clientSocket = "INTEROP_CLIENT_SOCKET"
	clientRoot   = "INTEROP_CLIENT_ROOT"
	clientEnv    = "INTEROP_CLIENT_ENV"
)

// clientLife is the time limit of a client that is not killed.
const clientLife = time.Minute

// scratch is the directory of this run, which every UID can enter.
var scratch string

func TestMain(m *testing.M) {
	proc.BeGuard()
	if os.Getenv(clientSocket) != "" {
		os.Exit(beClient())
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	// Argo CD's client reads these in every call.
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "ARGOCD_") || strings.EqualFold(name, "ALL_PROXY") {
			_ = os.Unsetenv(name)
		}
	}
	// Argo CD's client also logs each error that it returns.
	logrus.SetOutput(io.Discard)
	run, err := proc.StartRun(proc.FastDirectory())
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start:", err)
		return 1
	}
	defer run.End()
	scratch = run.Directory
	// Argo CD's sender leaves an empty directory behind for each archive.
	temporary := filepath.Join(scratch, "tmp")
	if err := os.Mkdir(temporary, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "cannot start:", err)
		return 1
	}
	_ = os.Setenv("TMPDIR", temporary)
	return m.Run()
}

// beClient calls generate in a process of its own and prints the result.
func beClient() int {
	ctx, cancel := context.WithTimeout(context.Background(), clientLife)
	defer cancel()
	c, err := client.Dial(ctx, os.Getenv(clientSocket))
	if err == nil {
		root := os.Getenv(clientRoot)
		_, err = c.Generate(ctx, client.App{Root: root, Path: root, Env: []string{os.Getenv(clientEnv)}})
	}
	fmt.Println("the call ended:", err)
	return 0
}

// peerBinary and repoServerBinary are built at first use. Later builds only check
// that nothing has changed.
var (
	peerBinary         = sync.OnceValues(func() (string, error) { return buildHere("argocd-cmp-server") })
	repoServerBinary   = sync.OnceValues(func() (string, error) { return buildHere("argocd-repo-server") })
	repoServerPrograms = sync.OnceValues(placePrograms)
)

// placePrograms makes a directory with the programs of Argo CD's image that the
// repo-server needs.
func placePrograms() (string, error) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-cd/v3").Output()
	if err != nil {
		return "", fmt.Errorf("where the module of Argo CD is: %w", err)
	}
	const wrapper = "git-verify-wrapper.sh"
	script, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "hack", wrapper))
	if err != nil {
		return "", err
	}
	directory := filepath.Join(scratch, "programs")
	if err := os.Mkdir(directory, 0o755); err != nil {
		return "", err
	}
	return directory, os.WriteFile(filepath.Join(directory, wrapper), script, 0o755)
}

func buildHere(name string) (string, error) {
	module, err := os.Getwd()
	if err != nil {
		return "", err
	}
	built, err := sut.Build(module, name)
	if err != nil {
		return "", err
	}
	return sut.Reachable(built, scratch)
}
