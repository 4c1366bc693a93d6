package main

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"
)

// alone measures the command of a small generate without any server, the least
// that every server must spend.
type alone struct {
	directory string
	samples   samples
}

// newAlone writes the files of the small application below root.
func newAlone(root string) (*alone, error) {
	if err := writeFiles(root, smallFiles, smallBytes); err != nil {
		return nil, err
	}
	return &alone{directory: filepath.Join(root, applicationDirectory)}, nil
}

// measure runs the command a number of times, and reads what it prints.
func (a *alone) measure(calls int) error {
	for range calls {
		process := exec.Command(command[0], command[1:]...)
		process.Dir = a.directory
		start := time.Now()
		if _, err := process.Output(); err != nil {
			return fmt.Errorf("the command alone: %w", err)
		}
		a.samples.times = append(a.samples.times, time.Since(start))
		a.samples.cpu += process.ProcessState.UserTime() + process.ProcessState.SystemTime()
	}
	return nil
}

// print adds the measurements to those of the servers.
func (a *alone) print(out io.Writer) {
	fmt.Fprintf(out, "\nthe command of a small generate alone, started by this program: p50 %.2f ms, p99 %.2f ms, CPU %.2f ms\n",
		milliseconds(a.samples.percentile(50)), milliseconds(a.samples.percentile(99)), milliseconds(a.samples.cpuPerCall()))
}
