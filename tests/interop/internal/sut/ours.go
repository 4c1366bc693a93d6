package sut

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
)

// Ours is one running cmp-supervisor.
type Ours struct {
	folders Folders
	// HTTP is the address of the metrics and health endpoints once all sockets answer.
	HTTP   string
	server *proc.Process
}

// Options are the settings that a test can change.
type Options struct {
	Binary string
	// Isolation is the value of --isolation; if empty, the server chooses.
	Isolation string
	// Folders replace new ones if given.
	Folders *Folders
	// Prepare runs after the folders are created and before the server starts.
	Prepare func(Folders) error
	// Arguments follow the default ones and override them.
	Arguments []string
	// Attach changes the command before it starts, for example its UID.
	Attach func(*exec.Cmd)
}

// StartOurs starts cmp-supervisor with the plugins and waits until all sockets answer.
func StartOurs(options Options, base string, plugins ...plugin.Definition) (*Ours, error) {
	ours, err := Launch(options, base, plugins...)
	if err != nil {
		return nil, err
	}
	for _, p := range plugins {
		if err := Ready(ours, p); err != nil {
			return nil, errors.Join(err, ours.Stop())
		}
	}
	ours.HTTP = ours.address()
	return ours, nil
}

// loopback is an address that the server logs.
var loopback = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// address is the one that the server has chosen for its endpoints, or empty if there are
// none. It is logged before sockets answer.
func (o *Ours) address() string {
	for line := range strings.Lines(o.Log()) {
		if strings.Contains(line, "serving metrics and health") {
			return loopback.FindString(line)
		}
	}
	return ""
}

// Launch starts cmp-supervisor and does not wait.
func Launch(options Options, base string, plugins ...plugin.Definition) (*Ours, error) {
	folders, err := options.folders(base)
	if err != nil {
		return nil, err
	}
	ours := &Ours{folders: folders}
	for _, p := range plugins {
		if err := ours.Add(p); err != nil {
			return nil, err
		}
	}
	if options.Prepare != nil {
		if err := options.Prepare(folders); err != nil {
			return nil, err
		}
	}
	arguments := []string{"serve", "--plugins-dir", folders.Plugins, "--socket-dir", folders.Sockets, "--work-dir", folders.Work, "--http", "127.0.0.1:0"}
	if options.Isolation != "" {
		arguments = append(arguments, "--isolation", options.Isolation)
	}
	command := exec.Command(options.Binary, append(arguments, options.Arguments...)...)
	command.Env = Environment(folders.Temporary)
	if options.Attach != nil {
		options.Attach(command)
	}
	ours.server, err = proc.Start(command)
	return ours, err
}

func (o Options) folders(base string) (Folders, error) {
	if o.Folders != nil {
		return *o.Folders, nil
	}
	return NewFolders(base)
}

// Name returns "ours".
func (*Ours) Name() string { return "ours" }

// Folders returns the server's directories.
func (o *Ours) Folders() Folders { return o.folders }

// Socket is the path of a plugin's socket.
func (o *Ours) Socket(d plugin.Definition) string { return o.folders.Socket(d) }

// File is the path of a plugin's definition.
func (o *Ours) File(d plugin.Definition) string {
	return filepath.Join(o.folders.Plugins, d.FullName()+".yaml")
}

// Add writes the definition by rename, so that it is never seen incomplete.
func (o *Ours) Add(d plugin.Definition) error {
	staged := filepath.Join(filepath.Dir(o.folders.Plugins), "staged-"+proc.Token())
	if err := os.WriteFile(staged, []byte(d.YAML()), 0o644); err != nil {
		return err
	}
	return os.Rename(staged, o.File(d))
}

// Process is the supervisor itself.
func (o *Ours) Process() *proc.Process { return o.server }

// Processes lists the supervisor and everything that it started.
func (o *Ours) Processes() []proc.Entry { return o.server.Tree() }

// HasEnded is true if the supervisor has ended.
func (o *Ours) HasEnded() bool { return o.server.HasEnded() }

// Log is the end of the server's output.
func (o *Ours) Log() string { return o.server.Output() }

// Stop kills all processes.
func (o *Ours) Stop() error { return o.server.Kill() }

// FreeAddresses finds different free ports on the loopback interface.
func FreeAddresses(count int) ([]string, error) {
	var addresses []string
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// Until all are known, so that none is found twice.
		defer func() { _ = listener.Close() }()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}
