// Package sut starts the servers under test: Argo CD's own plugin server, one
// process per plugin, and cmp-supervisor, one process for all.
package sut

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/wait"

	"google.golang.org/protobuf/types/known/emptypb"
)

// ReadyWithin is the time limit for all sockets of a server to answer. The peer
// needs a quarter of a second per process on an idle machine.
const ReadyWithin = time.Minute

// Server is a running server under test.
type Server interface {
	// Name is "peer" or "ours".
	Name() string
	// Socket is the path of a plugin's socket.
	Socket(plugin.Definition) string
	// Add serves one more plugin; it does not wait for the socket.
	Add(plugin.Definition) error
	// Folders are the server's directories.
	Folders() Folders
	// Processes lists all living processes of the server.
	Processes() []proc.Entry
	// HasEnded is true if a process that should serve has ended.
	HasEnded() bool
	// Log is the end of the server's output.
	Log() string
	// Stop kills all processes, and fails if one survives.
	Stop() error
}

// Folders are the directories of one server.
type Folders struct{ Plugins, Sockets, Work, Temporary string }

// Socket is the path of a plugin's socket.
func (f Folders) Socket(p plugin.Definition) string { return filepath.Join(f.Sockets, p.Socket()) }

// NewFolders creates the directories of one server below base. Their names are
// short, because a socket's path can have only 107 bytes.
func NewFolders(base string) (Folders, error) {
	root, err := os.MkdirTemp(base, "s")
	if err != nil {
		return Folders{}, err
	}
	f := Folders{
		// As in a Pod, not next to the work directory: the watch of the parent reports each opening in it.
		Plugins: filepath.Join(root, "config", "plugins"), Sockets: filepath.Join(root, "sockets"),
		Work: filepath.Join(root, "work"), Temporary: filepath.Join(root, "tmp"),
	}
	// Sets the mode exactly, because MkdirTemp uses its own.
	if err := os.Chmod(root, 0o755); err != nil {
		return Folders{}, err
	}
	if err := os.MkdirAll(f.Plugins, 0o755); err != nil {
		return Folders{}, err
	}
	for _, dir := range []string{f.Sockets, f.Work, f.Temporary} {
		if err := ArgoCD.MakeDirectory(dir); err != nil {
			return Folders{}, err
		}
	}
	return f, nil
}

// Account is the UID and GID of processes and of their files.
type Account struct{ UID, GID int }

// ArgoCD is the account in Argo CD's images, to which cmp-supervisor switches if
// it is started as root.
var ArgoCD = Account{UID: 999, GID: 999}

// Run makes the command run under the account, if the caller is root.
func (a Account) Run(command *exec.Cmd) {
	if os.Geteuid() == 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID)}}
	}
}

// MakeDirectory creates a directory that belongs to the account, if the caller is root.
func (a Account) MakeDirectory(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(dir, a.UID, a.GID)
}

// Ready waits until the plugin's socket answers a call.
func Ready(s Server, p plugin.Definition) error {
	err := wait.Until(ReadyWithin, s.Name()+" to answer on "+p.Socket(), func() error {
		if s.HasEnded() {
			return fmt.Errorf("the server has ended: %w", wait.ErrNever)
		}
		return Check(s.Socket(p), time.Second)
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.Log())
	}
	return nil
}

// Check makes the cheapest call on a new connection.
func Check(socket string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := os.Lstat(socket); err != nil {
		return err // Dialling would log every attempt.
	}
	c, err := client.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.CheckPluginConfiguration(ctx, &emptypb.Empty{})
	return err
}

// Environment is the caller's, without variables that affect a server, and with
// another directory for temporary files.
func Environment(temporary string, extra ...string) []string {
	var kept []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		steers := strings.HasPrefix(name, "ARGOCD_") || strings.HasPrefix(name, "CMP_SUPERVISOR_") || strings.EqualFold(name, "ALL_PROXY")
		if !steers {
			kept = append(kept, entry)
		}
	}
	// Not the caller's home, because the peer's plugins may write to it.
	return append(append(kept, "TMPDIR="+temporary, "HOME="+temporary), extra...)
}
