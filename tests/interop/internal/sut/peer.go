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

// atOnce is how many peers start at the same time: each needs a quarter of a
// second of processor time and 65 MB.
const atOnce = 4

// Peer is a set of argocd-cmp-server processes that share a socket directory.
type Peer struct {
	binary  string
	user    func(*exec.Cmd)
	folders Folders
	mutex   sync.Mutex
	servers []*proc.Process
}

// StartPeer starts one argocd-cmp-server per plugin and waits until all answer.
func StartPeer(binary, base string, plugins ...plugin.Definition) (*Peer, error) {
	return startPeer(&Peer{binary: binary, user: AsArgoCD}, base, plugins...)
}

// StartNamesake starts another binary under the peer's name, flags and
// environment, as the caller's user.
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

// Name is "peer".
func (*Peer) Name() string { return "peer" }

// Folders says where the peer keeps what.
func (p *Peer) Folders() Folders { return p.folders }

// Socket is the path on which a plugin answers.
func (p *Peer) Socket(d plugin.Definition) string { return p.folders.Socket(d) }

// Add starts one more process.
func (p *Peer) Add(d plugin.Definition) error {
	_, err := p.AddText(d.FullName(), d.YAML())
	return err
}

// AddText starts a process on a definition as it is written. A work directory
// of its own is a must: every argocd-cmp-server wipes the one it is given.
func (p *Peer) AddText(folder, definition string) (*proc.Process, error) {
	config := filepath.Join(p.folders.Plugins, folder)
	work := filepath.Join(p.folders.Work, folder)
	if err := os.Mkdir(config, 0o755); err != nil {
		return nil, err
	}
	if err := MakeServersOwn(work); err != nil {
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

// Processes lists all processes of all plugins.
func (p *Peer) Processes() []proc.Entry {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var all []proc.Entry
	for _, server := range p.servers {
		all = append(all, server.Tree()...)
	}
	return all
}

// HasEnded says whether any of the processes has ended.
func (p *Peer) HasEnded() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.ContainsFunc(p.servers, (*proc.Process).HasEnded)
}

// Log is what the processes wrote, one after the other, without the line that
// each of them starts with at every log level.
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

// Stop kills hard: on SIGTERM argocd-cmp-server removes its socket and runs on.
func (p *Peer) Stop() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var failures []error
	for _, server := range p.servers {
		failures = append(failures, server.Kill())
	}
	return errors.Join(failures...)
}
