package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	repository "github.com/argoproj/argo-cd/v3/reposerver/apiclient"
)

// callWithin is the time limit for calls that have no deadline of their own.
const callWithin = 2 * time.Minute

// subject is the server that a test currently checks.
type subject struct{ sut.Server }

// onEach runs a check on the peer and then on ours. If the peer fails the check,
// the check is wrong.
func onEach(t *testing.T, check func(t *testing.T, s subject), definitions ...plugin.Definition) {
	t.Helper()
	proven := t.Run("peer", func(t *testing.T) { check(t, peer(t, definitions...)) })
	t.Run("ours", func(t *testing.T) {
		needsOurs(t)
		if !proven {
			t.Fatal("not judged: the peer itself does not pass this test")
		}
		check(t, ours(t, definitions...))
	})
}

// peer starts one argocd-cmp-server for each plugin.
func peer(t *testing.T, definitions ...plugin.Definition) subject {
	t.Helper()
	binary, err := peerBinary()
	if err != nil {
		t.Fatal(err)
	}
	server, err := sut.StartPeer(binary, scratch, definitions...)
	if err != nil {
		t.Fatal(err)
	}
	return stopped(t, server)
}

// ours starts cmp-supervisor with all plugins.
func ours(t *testing.T, definitions ...plugin.Definition) subject {
	t.Helper()
	server, err := sut.StartOurs(needsOurs(t), scratch, definitions...)
	if err != nil {
		t.Fatal(err)
	}
	return stopped(t, server)
}

// lacks skips a test for which this machine lacks something, or fails it if all
// tests are wanted.
func lacks(t *testing.T, format string, arguments ...any) {
	t.Helper()
	reason := fmt.Sprintf(format, arguments...)
	if os.Getenv(testsWanted) == "all" {
		t.Fatalf("%s=all, and this test would be skipped: %s", testsWanted, reason)
	}
	t.Skip("skipped: " + reason)
}

// needsOurs skips the test if there is no binary to test.
func needsOurs(t *testing.T) sut.Options {
	t.Helper()
	binary := os.Getenv(oursBinary)
	if binary == "" {
		lacks(t, "%[1]s is not set, so there is no cmp-supervisor to test: run `cargo build` and set %[1]s=<repository>/target/debug/cmp-supervisor", oursBinary)
	}
	if info, err := os.Stat(binary); err != nil || info.IsDir() || !filepath.IsAbs(binary) {
		t.Fatalf("%s must be the absolute path of a cmp-supervisor binary, and is %q (%v)", oursBinary, binary, err)
	}
	return sut.Options{Binary: binary, Isolation: os.Getenv(oursIsolation)}
}

func stopped(t *testing.T, server sut.Server) subject {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s wrote:\n%s", server.Name(), server.Log())
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
		if err := proc.Remove(filepath.Dir(server.Folders().Sockets)); err != nil {
			t.Error(err)
		}
	})
	return subject{server}
}

// account is the one under which the repo-server can use the server's sockets.
func (s subject) account() sut.Account {
	if server, isElsewhere := s.Server.(interface{ Account() sut.Account }); isElsewhere {
		return server.Account()
	}
	return sut.ArgoCD
}

func (s subject) isOurs() bool { return s.Name() == "ours" }

// dial opens a connection that is closed when the test ends.
func (s subject) dial(t *testing.T, d plugin.Definition) *client.Client {
	t.Helper()
	c, err := client.Dial(within(t, callWithin), s.Socket(d))
	if err != nil {
		t.Fatalf("%s does not let Argo CD connect: %v", s.Name(), err)
	}
	t.Cleanup(c.Close)
	return c
}

func (s subject) generate(t *testing.T, d plugin.Definition, app client.App) ([]string, error) {
	t.Helper()
	return s.dial(t, d).Generate(within(t, callWithin), app)
}

func (s subject) match(t *testing.T, d plugin.Definition, app client.App) (*plugins.RepositoryResponse, error) {
	t.Helper()
	return s.dial(t, d).Match(within(t, callWithin), app)
}

func (s subject) parameters(t *testing.T, d plugin.Definition, app client.App) ([]*repository.ParameterAnnouncement, error) {
	t.Helper()
	return s.dial(t, d).Parameters(within(t, callWithin), app)
}

func (s subject) raw(t *testing.T, d plugin.Definition, method client.Method, messages ...client.Message) (any, error) {
	t.Helper()
	return s.dial(t, d).Raw(within(t, callWithin), method, messages...)
}

// within is the context of one call.
func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// repositoryOf is an application that is the root of a new repository.
func repositoryOf(t *testing.T, files tree.Files) client.App {
	t.Helper()
	root := t.TempDir()
	if err := tree.Write(root, files); err != nil {
		t.Fatal(err)
	}
	return client.App{Root: root, Path: root}
}

// at is the same repository with the application in one of its directories.
func at(app client.App, directory string) client.App {
	app.Path = filepath.Join(app.Root, directory)
	return app
}

// with is the same application with additional environment entries.
func with(app client.App, env ...string) client.App {
	app.Env = env
	return app
}
