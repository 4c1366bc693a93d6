package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/wait"

	core "k8s.io/api/core/v1"
)

// Volumes that all our manifests have.
const (
	socketVolume = "plugins"
	pluginVolume = "cmp-plugins"
)

// readyWithin is the time limit for a Pod to start; its startup probe allows as much.
const readyWithin = time.Minute

// mappedUIDs is the first UID for user namespaces, above those of all other tests.
const mappedUIDs = 1 << 30

// Pod is a running Pod.
type Pod struct {
	manifest Manifest
	// directory has the volumes, and in hidden directories the images and bundles.
	directory string
	images    map[string]image
	volumes   map[string]*made
	memory    []inMemory
	shown     map[string]string
	firstUID  uint32
	token     string
	mark      string
	process   *proc.Process
}

// Start runs our containers of the Pod below a directory of this machine, and waits
// until the sidecar is ready. The mark is a variable of all its processes.
func Start(manifest Manifest, programs Programs, below, mark string) (*Pod, error) {
	directory, err := os.MkdirTemp(below, "interop-pod-")
	if err != nil {
		return nil, err
	}
	token := proc.Token()
	p := &Pod{
		manifest: manifest, directory: directory, images: map[string]image{}, volumes: map[string]*made{},
		shown: map[string]string{}, token: token, mark: mark,
	}
	if !manifest.hostUsers() {
		p.firstUID = mappedUIDs + uint32(os.Getpid()%4096)*userNamespace
	}
	err = p.prepare(programs)
	if err == nil {
		err = p.launch()
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop(), proc.Remove(directory))
	}
	return p, nil
}

// prepare makes images, volumes and the configurations of containers.
func (p *Pod) prepare(programs Programs) error {
	if err := os.Chmod(p.directory, 0o755); err != nil {
		return err
	}
	supervisor, err := supervisorImage(p.hidden("image"), programs)
	if err != nil {
		return err
	}
	tools, err := toolsImage(p.hidden("tools"), programs)
	if err != nil {
		return err
	}
	p.images[sidecarName], p.images[""] = supervisor, tools
	if err := p.makeVolumes(); err != nil {
		return err
	}
	maps.Copy(p.shown, p.manifest.Objects["ConfigMap argocd-cmp-plugins"])
	for _, container := range p.manifest.started() {
		if err := p.configure(container); err != nil {
			return err
		}
	}
	return errors.Join(p.give(supervisor.root), p.give(tools.root))
}

// configure writes the bundle of a container.
func (p *Pod) configure(container core.Container) error {
	spec, err := p.translate(container)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	bundle := p.hidden(container.Name)
	if err := os.Mkdir(bundle, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o644)
}

// launch runs the init containers one after the other, and then the sidecar. Their
// volumes in memory are mounted in a namespace of their own, and end with it.
func (p *Pod) launch() error {
	var script strings.Builder
	for _, mount := range p.memory {
		fmt.Fprintf(&script, "cp -a %[1]s %[1]s.staged\nmount -t tmpfs -o %[2]s tmpfs %[1]s\n", mount.directory, mount.options)
		fmt.Fprintf(&script, "cp -a %[1]s.staged/. %[1]s\nrm -r %[1]s.staged\n", mount.directory)
	}
	containers := p.manifest.started()
	for i, container := range containers {
		if i == len(containers)-1 {
			script.WriteString("exec ")
		}
		fmt.Fprintf(&script, "%s run --bundle %s %s\n", p.runtime(), p.hidden(container.Name), p.id(container))
	}
	command := exec.Command("/bin/sh", "-euc", script.String())
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	process, err := proc.Start(command)
	if err != nil {
		return err
	}
	p.process = process
	probe := p.sidecar().StartupProbe
	if probe == nil {
		return nil
	}
	err = wait.Until(readyWithin, "the Pod to be ready", func() error {
		if process.HasEnded() {
			return fmt.Errorf("it has ended: %w", wait.ErrNever)
		}
		_, err := p.Get(probe.HTTPGet.Port.IntValue(), probe.HTTPGet.Path)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, process.Output())
	}
	return nil
}

// sidecar is the container that serves.
func (p *Pod) sidecar() core.Container {
	started := p.manifest.started()
	return started[len(started)-1]
}

// image finds the image of a name: ours, or one with tools.
func (p *Pod) image(name string) image {
	name, _, _ = strings.Cut(filepath.Base(name), ":")
	if found, isThere := p.images[name]; isThere {
		return found
	}
	return p.images[""]
}

// host is the UID or GID on this machine of one in the Pod.
func (p *Pod) host(id int) int { return int(p.firstUID) + id }

func (p *Pod) hidden(name string) string { return filepath.Join(p.directory, "."+name) }

func (p *Pod) id(container core.Container) string { return "interop-" + p.token + "-" + container.Name }

func (p *Pod) runtime() string { return "runc --root " + p.hidden("runc") }

// Account is the one that serves: a supervisor that starts as root switches to Argo CD's.
func (p *Pod) Account() sut.Account {
	account := sut.ArgoCD
	context := security(p.manifest.Spec.SecurityContext, p.sidecar().SecurityContext)
	if user, err := p.user(p.image(p.sidecar().Image), context); err == nil && user.UID != 0 {
		account = sut.Account{UID: int(user.UID), GID: int(user.GID)}
	}
	return sut.Account{UID: p.host(account.UID), GID: p.host(account.GID)}
}

// Name returns "ours".
func (*Pod) Name() string { return "ours" }

// Folders are the volumes.
func (p *Pod) Folders() sut.Folders {
	return sut.Folders{
		Plugins: filepath.Join(p.directory, pluginVolume),
		Sockets: filepath.Join(p.directory, socketVolume),
	}
}

// Socket is the path of a plugin's socket on this machine.
func (p *Pod) Socket(d plugin.Definition) string { return p.Folders().Socket(d) }

// Add adds a definition to the ConfigMap, whose volume then shows it.
func (p *Pod) Add(d plugin.Definition) error {
	p.shown[d.FullName()+".yaml"] = d.YAML()
	made := p.volumes[pluginVolume]
	if _, err := made.shows.Update(p.shown); err != nil {
		return err
	}
	return p.give(made.directory)
}

// Processes lists the processes of the Pod, the runtime's included.
func (p *Pod) Processes() []proc.Entry { return p.process.Tree() }

// HasEnded is true if the sidecar has ended.
func (p *Pod) HasEnded() bool { return p.process.HasEnded() }

// Log is the end of the output of all containers.
func (p *Pod) Log() string { return p.process.Output() }

// Process is the runtime, which ends with the sidecar.
func (p *Pod) Process() *proc.Process { return p.process }

// Stop kills all processes and removes what the runtime has made.
func (p *Pod) Stop() error {
	var failures []error
	if p.process != nil {
		failures = append(failures, p.process.Kill())
	}
	for _, container := range p.manifest.started() {
		command := exec.Command("runc", "--root", p.hidden("runc"), "delete", "--force", p.id(container))
		if output, err := command.CombinedOutput(); err != nil {
			failures = append(failures, fmt.Errorf("%w: %s", err, output))
		}
	}
	return errors.Join(failures...)
}
