// Package interop judges a plugin server by Argo CD's own client, Argo CD's own
// server and Argo CD's own repo-server. See README.md.
package interop

import (
	"context"
	"fmt"
	"io"
	"os"
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

// The variables by which a run is told what to judge.
const (
	oursBinary    = "CMP_SUPERVISOR_BIN"
	oursIsolation = "CMP_SUPERVISOR_ISOLATION"
)

// The variables that turn a copy of this program into a client to be killed.
const (
	clientSocket = "INTEROP_CLIENT_SOCKET"
	clientRoot   = "INTEROP_CLIENT_ROOT"
	clientEnv    = "INTEROP_CLIENT_ENV"
)

// clientLife bounds a client that nobody killed.
const clientLife = time.Minute

// scratch is the directory of this run, reachable by every user.
var scratch string

func TestMain(m *testing.M) {
	proc.BeGuard()
	if os.Getenv(clientSocket) != "" {
		os.Exit(beClient())
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	// Argo CD's client reads these at every call.
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "ARGOCD_") || strings.EqualFold(name, "ALL_PROXY") {
			_ = os.Unsetenv(name)
		}
	}
	// Argo CD's client logs what it returns as an error anyway.
	logrus.SetOutput(io.Discard)
	run, err := proc.StartRun(proc.FastDirectory())
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start:", err)
		return 1
	}
	defer run.End()
	scratch = run.Directory
	// Argo CD's sender leaves an empty directory behind for every archive.
	temporary := filepath.Join(scratch, "tmp")
	if err := os.Mkdir(temporary, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "cannot start:", err)
		return 1
	}
	_ = os.Setenv("TMPDIR", temporary)
	return m.Run()
}

// beClient generates and prints the outcome, in a process of its own.
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

// peerBinary and repoServerBinary are built at first use; from then on the
// build only checks that nothing has changed.
var (
	peerBinary       = sync.OnceValues(func() (string, error) { return buildHere("argocd-cmp-server") })
	repoServerBinary = sync.OnceValues(func() (string, error) { return buildHere("argocd-repo-server") })
)

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
