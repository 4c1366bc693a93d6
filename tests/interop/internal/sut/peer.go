package sut

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
)

// atOnce is the number of peers that start at the same time. Each needs a
// quarter of a second of CPU time and 65 MB.
const atOnce = 4

// Peer is a group of argocd-cmp-server processes that share a socket directory.
type Peer struct {
	binary  string
	user    func(*exec.Cmd)
	folders Folders
	mutex   sync.Mutex
	servers []*proc.Process
}

// StartPeer starts one argocd-cmp-server per plugin and waits until all sockets answer.
func StartPeer(binary, base string, plugins ...plugin.Definition) (*Peer, error) {
	return startPeer(&Peer{binary: binary, user: ArgoCD.Run}, base, plugins...)
}

// StartNamesake starts another binary with the peer's name, flags and
// environment, under the caller's UID.
func StartNamesake(binary, base string, plugins ...plugin.Definition) (*Peer, error) {
	return startPeer(&Peer{binary: binary, user: func(*exec.Cmd) {}}, base, plugins...)
}

func startPeer(peer *Peer, base string, plugins ...plugin.Definition) (*Peer, error) {
	folders, err := NewFolders(base)
	if err != nil {
		return nil, err
	}
	peer.folders = folders
	failures := make([]error, len(plugins))
	slots := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	for i, p := range plugins {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if failures[i] = peer.Add(p); failures[i] == nil {
				failures[i] = Ready(peer, p)
			}
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, errors.Join(err, peer.Stop())
	}
	return peer, nil
}

// Name returns "peer".
func (*Peer) Name() string { return "peer" }

// Folders returns the peer's directories.
func (p *Peer) Folders() Folders { return p.folders }

// Socket is the path of a plugin's socket.
func (p *Peer) Socket(d plugin.Definition) string { return p.folders.Socket(d) }

// Add starts a process for one more plugin.
func (p *Peer) Add(d plugin.Definition) error {
	_, err := p.AddText(d.FullName(), d.YAML())
	return err
}

// AddText starts a process with the text of a definition. Each process needs its
// own work directory, because argocd-cmp-server empties the one it is given.
func (p *Peer) AddText(folder, definition string) (*proc.Process, error) {
	config := filepath.Join(p.folders.Plugins, folder)
	work := filepath.Join(p.folders.Work, folder)
	if err := os.Mkdir(config, 0o755); err != nil {
		return nil, err
	}
	if err := ArgoCD.MakeDirectory(work); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(config, "plugin.yaml"), []byte(definition), 0o644); err != nil {
		return nil, err
	}
	command := exec.Command(p.binary, "--config-dir-path", config, "--loglevel", "error")
	command.Env = Environment(p.folders.Temporary, "ARGOCD_BINARY_NAME=argocd-cmp-server",
		"ARGOCD_PLUGINSOCKFILEPATH="+p.folders.Sockets, "ARGOCD_CMP_WORKDIR="+work)
	p.user(command)
	server, err := proc.Start(command)
	if err != nil {
		return nil, err
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.servers = append(p.servers, server)
	return server, nil
}

// Processes lists the processes of all plugins.
func (p *Peer) Processes() []proc.Entry {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var all []proc.Entry
	for _, server := range p.servers {
		all = append(all, server.Tree()...)
	}
	return all
}

// HasEnded is true if any of the processes has ended.
func (p *Peer) HasEnded() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.ContainsFunc(p.servers, (*proc.Process).HasEnded)
}

// Log is the output of all processes, without the line that each prints at every
// log level when it starts.
func (p *Peer) Log() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var log strings.Builder
	for _, server := range p.servers {
		for line := range strings.Lines(server.Output()) {
			if !strings.Contains(line, "Server is starting") {
				log.WriteString(line)
			}
		}
	}
	return log.String()
}

// Stop sends SIGKILL: on SIGTERM argocd-cmp-server removes its socket and keeps running.
func (p *Peer) Stop() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var failures []error
	for _, server := range p.servers {
		failures = append(failures, server.Kill())
	}
	return errors.Join(failures...)
}
