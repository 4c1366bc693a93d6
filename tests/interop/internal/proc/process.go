package proc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"cmp-supervisor/tests/interop/internal/wait"
)

// goneWithin is the time limit for killed processes to disappear.
const goneWithin = time.Minute

// keptOutput is the number of bytes of a process's output kept for a failing test.
const keptOutput = 64 << 10

// Process is a child process and everything that it starts.
type Process struct {
	command *exec.Cmd
	mark    string
	output  tail
	ended   chan struct{}
}

// Start runs the command with its own mark in the environment, by which even a
// descendant that left the tree is found.
func Start(command *exec.Cmd) (*Process, error) {
	p := &Process{command: command, mark: "INTEROP_PROCESS=" + Token(), ended: make(chan struct{})}
	if command.Env == nil {
		command.Env = os.Environ()
	}
	command.Env = append(command.Env, p.mark)
	command.Stdout, command.Stderr = &p.output, &p.output
	// A daemon that holds the pipe must not block Wait.
	command.WaitDelay = time.Second
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", command.Path, err)
	}
	go func() {
		_ = command.Wait() // The exit state is read from ProcessState.
		close(p.ended)
	}()
	return p, nil
}

// Pid is the process ID of the first process.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Tree lists the process and its living descendants.
func (p *Process) Tree() []Entry { return Tree(p.Pid()) }

// Output is the end of stdout and stderr.
func (p *Process) Output() string { return p.output.String() }

// Signal sends a signal to the first process only.
func (p *Process) Signal(signal syscall.Signal) { _ = p.command.Process.Signal(signal) }

// HasEnded is true once the first process has been reaped.
func (p *Process) HasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Exit waits for the first process to end and returns its exit code, -1 for a signal.
func (p *Process) Exit(limit time.Duration) (int, error) {
	select {
	case <-p.ended:
		return p.command.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("%s still runs after %s; it said: %s", p.command.Path, limit, p.Output())
	}
}

// Left lists the living processes that this process started: descendants, and
// processes with its mark in the environment.
func (p *Process) Left() []Entry { return append(p.Tree(), Marked(p.mark)...) }

// Kill kills the process and everything that it started, and waits until all are gone.
func (p *Process) Kill() error {
	return wait.Until(goneWithin, "killed processes to go", func() error {
		left := p.Left()
		for _, entry := range left {
			entry.Kill()
		}
		if len(left) > 0 || !p.HasEnded() {
			return fmt.Errorf("still there: %v", left)
		}
		return nil
	})
}

// tail keeps the last bytes that are written to it.
type tail struct {
	mutex sync.Mutex
	kept  bytes.Buffer
}

func (t *tail) Write(text []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.kept.Write(text)
	if surplus := t.kept.Len() - keptOutput; surplus > 0 {
		t.kept.Next(surplus)
	}
	return len(text), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.kept.String()
}
