package proc

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"cmp-supervisor/tests/interop/internal/wait"
)

// guardFor is the variable that turns a copy of this program into a run's guard.
const guardFor = "INTEROP_GUARD_FOR"

// runDirectory is the variable with the run's directory; all its processes inherit it.
const runDirectory = "INTEROP_RUN"

// directoryPrefix must match before the guard removes anything.
const directoryPrefix = "interop-"

// Token is a word that is unique on this machine.
func Token() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // Never fails (crypto/rand).
	return hex.EncodeToString(random[:])
}

// Mark is the variable by which the guard of a run finds its processes.
func Mark(directory string) string { return runDirectory + "=" + directory }

// Run is one run of the tests: its directory, and a guard process. The guard
// removes the directory and kills all processes even if this process is killed.
type Run struct {
	Directory string
	pipe      io.Closer
	guard     *exec.Cmd
}

// BeGuard must be the first call in main: in a guard process, it does the guard's
// work and exits.
func BeGuard() {
	directory := os.Getenv(guardFor)
	if directory == "" {
		return
	}
	// The pipe closes when the run ends, even if it is killed.
	_, _ = io.Copy(io.Discard, os.Stdin)
	err := wait.Until(goneWithin, "left processes to go", func() error {
		var left []Entry
		for _, marked := range Marked(Mark(directory) + "\x00") {
			left = append(left, Tree(marked.Pid)...)
		}
		for _, entry := range left {
			entry.Kill()
		}
		if len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if strings.HasPrefix(filepath.Base(directory), directoryPrefix) {
		if err := Remove(directory); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(0)
}

// Remove removes a directory, including directories in it without permissions:
// the repo-server removes all permissions from those that it does not use.
func Remove(directory string) error {
	_ = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			// Called before the directory is read. If this fails, removing fails as well.
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(directory)
}

// StartRun creates the run's directory below base and starts its guard.
func StartRun(base string) (*Run, error) {
	directory, err := os.MkdirTemp(base, directoryPrefix)
	if err != nil {
		return nil, err
	}
	// Processes with other UIDs must be able to enter it.
	if err := os.Chmod(directory, 0o755); err != nil {
		return nil, err
	}
	if err := os.Setenv(runDirectory, directory); err != nil {
		return nil, err
	}
	guard := exec.Command("/proc/self/exe")
	// Without the run's mark, because the guard would otherwise kill itself.
	guard.Env = []string{guardFor + "=" + directory}
	guard.Stderr = os.Stderr
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := guard.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := guard.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the guard: %w", err)
	}
	return &Run{Directory: directory, pipe: pipe, guard: guard}, nil
}

// End lets the guard clean up and waits for it.
func (r *Run) End() {
	_ = r.pipe.Close()
	_ = r.guard.Wait()
}
