// Package proc starts processes that cannot outlive the tests, and reads /proc.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Entry is one living process in /proc. Zombies are left out: they hold no
// memory, file or UID, and their parent may be any process.
type Entry struct {
	Pid, Parent int
	// Start is the start time in ticks; together with Pid it identifies a process.
	Start uint64
	// Command is the command line, joined with spaces.
	Command string
}

func (e Entry) String() string { return fmt.Sprintf("%d (%s)", e.Pid, e.Command) }

// Kill sends SIGKILL, unless the process is gone and its ID belongs to another.
func (e Entry) Kill() {
	if now, alive := read(e.Pid); alive && now.Start == e.Start {
		_ = syscall.Kill(e.Pid, syscall.SIGKILL) // It may have ended since it was looked at.
	}
}

// Alive is true if this very process still exists.
func (e Entry) Alive() bool {
	now, alive := read(e.Pid)
	return alive && now.Start == e.Start
}

// All lists every visible process.
func All() []Entry {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []Entry
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		if entry, alive := read(pid); alive {
			all = append(all, entry)
		}
	}
	return all
}

// Tree lists a process and all its living descendants, parents first.
func Tree(root int) []Entry {
	children := map[int][]Entry{}
	var tree []Entry
	for _, entry := range All() {
		children[entry.Parent] = append(children[entry.Parent], entry)
		if entry.Pid == root {
			tree = append(tree, entry)
		}
	}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i].Pid]...)
	}
	return tree
}

// Marked lists the processes that have the mark in their arguments or in their
// initial environment, except the calling process.
func Marked(mark string) []Entry {
	var marked []Entry
	for _, entry := range All() {
		if entry.Pid == os.Getpid() {
			continue
		}
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", entry.Pid)) // Unreadable means it is another user's.
		if strings.Contains(entry.Command, mark) || bytes.Contains(environ, []byte(mark)) {
			marked = append(marked, entry)
		}
	}
	return marked
}

func read(pid int) (Entry, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Entry{}, false
	}
	// The name is in parentheses and may contain spaces and parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, parent, start = 0, 1, 19
	if len(fields) <= start || fields[state] == "Z" || fields[state] == "X" {
		return Entry{}, false
	}
	entry := Entry{Pid: pid}
	entry.Parent, _ = strconv.Atoi(fields[parent])
	entry.Start, _ = strconv.ParseUint(fields[start], 10, 64)
	arguments, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	entry.Command = strings.TrimSpace(strings.ReplaceAll(string(arguments), "\x00", " "))
	return entry, true
}
