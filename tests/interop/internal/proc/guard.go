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

// guardFor tells a copy of this program that it is the guard of a run.
const guardFor = "INTEROP_GUARD_FOR"

// runDirectory is inherited by all that a run starts; its value is the run's own directory.
const runDirectory = "INTEROP_RUN"

// directoryPrefix is checked before the guard removes anything.
const directoryPrefix = "interop-"

// Token is a word that occurs nowhere else on the machine.
func Token() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // Never fails (crypto/rand).
	return hex.EncodeToString(random[:])
}

// Run is one run of the tests: its directory, and a guard process that removes
// the directory and kills what was started even if this process is killed.
type Run struct {
	Directory string
	pipe      io.Closer
	guard     *exec.Cmd
}

// BeGuard must be the first call of main: in a guard process it does the
// guard's work and ends the process.
func BeGuard() {
	directory := os.Getenv(guardFor)
	if directory == "" {
		return
	}
	// The pipe closes when the run has ended, however it ended.
	_, _ = io.Copy(io.Discard, os.Stdin)
	err := wait.Until(goneWithin, "left processes to go", func() error {
		var left []Entry
		for _, marked := range Marked(runDirectory + "=" + directory + "\x00") {
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

// Remove removes a directory in which some directories may be locked: the
// repo-server takes all rights from those it does not use, plugins may too.
func Remove(directory string) error {
	_ = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			// Called before the directory is read. Where it fails, so does what follows.
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(directory)
}

// StartRun makes the run's directory below base and starts its guard.
func StartRun(base string) (*Run, error) {
	directory, err := os.MkdirTemp(base, directoryPrefix)
	if err != nil {
		return nil, err
	}
	// Other users than ours must be able to reach what is inside.
	if err := os.Chmod(directory, 0o755); err != nil {
		return nil, err
	}
	if err := os.Setenv(runDirectory, directory); err != nil {
		return nil, err
	}
	guard := exec.Command("/proc/self/exe")
	// Without the run's own mark, or the guard would be among what it kills.
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
