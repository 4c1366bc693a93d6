package interop

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/wait"
)

// goneWithin is the time limit on a busy machine for leftovers of a request to
// disappear. The peer kills processes that ignore SIGTERM after 5 s.
const goneWithin = time.Minute

// appearsWithin is the time limit for a plugin's command to start.
const appearsWithin = time.Minute

// marked is an application with a unique mark: a variable in the environment of
// its processes, and a file name on disk.
func marked(t *testing.T) (mark string, app client.App) {
	t.Helper()
	mark = proc.Token()
	return mark, with(repositoryOf(t, tree.Files{"file-" + mark: "x"}), "INTEROP_MARK="+mark)
}

// running waits until at least n of the plugin's processes have the mark.
func running(t *testing.T, mark string, n int, except ...int) []proc.Entry {
	t.Helper()
	var found []proc.Entry
	err := wait.Until(appearsWithin, "the plugin's command to run", func() error {
		found = found[:0]
		for _, entry := range proc.Marked(mark) {
			if !slices.Contains(except, entry.Pid) {
				found = append(found, entry)
			}
		}
		if len(found) < n {
			return fmt.Errorf("expected at least %d marked processes, got %v", n, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// gone waits until no process and no file has the mark.
func gone(t *testing.T, s subject, mark string) {
	t.Helper()
	if err := wait.Until(goneWithin, "everything of the request to go", func() error { return leftOf(s, mark) }); err != nil {
		t.Error(err)
	}
}

func leftOf(s subject, mark string) error {
	if processes := proc.Marked(mark); len(processes) > 0 {
		return fmt.Errorf("processes are left: %v", processes)
	}
	for _, path := range files(s) {
		if strings.Contains(path, mark) {
			return fmt.Errorf("a file is left: %s", path)
		}
	}
	return nil
}

// unchanged waits until the server has no more regular files than before.
func unchanged(t *testing.T, s subject, before []string) {
	t.Helper()
	err := wait.Until(goneWithin, "the request's files to go", func() error {
		for _, path := range files(s) {
			if !slices.Contains(before, path) {
				return fmt.Errorf("a file is left: %s", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// files lists the regular files in the directories that requests may use.
func files(s subject) []string {
	var paths []string
	for _, root := range []string{s.Folders().Work, s.Folders().Temporary} {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				paths = append(paths, path)
			}
			return nil // What vanishes during the walk is what we hope for.
		})
	}
	return paths
}
