package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/wait"

	repository "github.com/argoproj/argo-cd/v3/reposerver/apiclient"
	"github.com/argoproj/argo-cd/v3/util/tls"
	health "google.golang.org/grpc/health/grpc_health_v1"
)

// startsWithin is the time limit for redis and the repo-server to answer.
const startsWithin = 2 * time.Minute

// needsProgram skips the test if a program of the operating system is missing.
func needsProgram(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		lacks(t, "%s is not installed, and the repo-server needs it: run `apt-get install %s`", name, debianPackage)
	}
	return path
}

// redis starts a cache that saves nothing to disk, and returns its address.
func redis(t *testing.T) string {
	t.Helper()
	binary := needsProgram(t, "redis-server", "redis-server")
	needsProgram(t, "git", "git")
	free, err := sut.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	address := free[0]
	command := exec.Command(binary, "--bind", "127.0.0.1", "--port", portOf(address), "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	attended(t, command)
	return address
}

// attended runs a process until the test ends.
func attended(t *testing.T, command *exec.Cmd) *proc.Process {
	t.Helper()
	process, err := proc.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(command.Path), process.Output())
		}
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
	})
	return process
}

// repoServer starts argocd-repo-server with the plugins of a server and more
// arguments, and returns its client.
func repoServer(t *testing.T, s subject, redis string, arguments ...string) repository.RepoServerServiceClient {
	t.Helper()
	binary, err := repoServerBinary()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := repoServerPrograms()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp(scratch, "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proc.Remove(home); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	temporary := filepath.Join(home, "tmp")
	if err := s.account().MakeDirectory(temporary); err != nil {
		t.Fatal(err)
	}
	free, err := sut.FreeAddresses(2)
	if err != nil {
		t.Fatal(err)
	}
	address, metrics := free[0], free[1]
	command := exec.Command(binary, "--disable-tls", "--client-ca-path", "", "--loglevel", "warn", "--redis", redis,
		"--address", "127.0.0.1", "--port", portOf(address), "--metrics-address", "127.0.0.1", "--metrics-port", portOf(metrics))
	command.Args = append(command.Args, arguments...)
	// By default, these are all below /app/config.
	command.Env = sut.Environment(temporary, "PATH="+programs+":"+os.Getenv("PATH"), "ARGOCD_BINARY_NAME=argocd-repo-server", "ARGOCD_GPG_ENABLED=false",
		"ARGOCD_APP_CONF_PATH="+home, "ARGOCD_TLS_DATA_PATH="+home, "ARGOCD_SSH_DATA_PATH="+home,
		"ARGOCD_ASK_PASS_SOCK="+filepath.Join(temporary, "ask-pass.sock"), "ARGOCD_PLUGINSOCKFILEPATH="+s.Folders().Sockets)
	s.account().Run(command)
	process := attended(t, command)

	conn, err := repository.NewConnection(address, int(callWithin.Seconds()), &tls.Configuration{DisableTLS: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	err = wait.Until(startsWithin, "argocd-repo-server to serve", func() error {
		if process.HasEnded() {
			return fmt.Errorf("it has ended: %w", wait.ErrNever)
		}
		_, err := health.NewHealthClient(conn).Check(within(t, time.Second), &health.HealthCheckRequest{})
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, process.Output())
	}
	return repository.NewRepoServerServiceClient(conn)
}

func portOf(address string) string {
	const host = "127.0.0.1:"
	return address[len(host):]
}

// gitRepository creates a repository with one commit and returns its URL.
func gitRepository(t *testing.T, files tree.Files) string {
	t.Helper()
	return gitRepositoryOf(t, sut.ArgoCD, files)
}

// gitRepositoryOf creates a repository that belongs to the repo-server's account.
func gitRepositoryOf(t *testing.T, owner sut.Account, files tree.Files) string {
	t.Helper()
	git := needsProgram(t, "git", "git")
	// t.TempDir is not used, because the owner must be able to enter it.
	root, err := os.MkdirTemp(scratch, "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proc.Remove(root); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(root, "repo")
	if err := owner.MakeDirectory(work); err != nil {
		t.Fatal(err)
	}
	if err := tree.Write(work, files); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-A"},
		{"-c", "user.name=interop", "-c", "user.email=interop@localhost", "commit", "-q", "-m", "all"},
	} {
		command := exec.Command(git, arguments...)
		// Git trusts a repository that belongs to its own UID.
		owner.Run(command)
		command.Dir = work
		command.Env = sut.Environment(root, "GIT_CONFIG_NOSYSTEM=1")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", arguments, err, output)
		}
	}
	return "file://" + work
}
