package interop

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/tree"
)

// mostMemory is the limit for the sum of the peaks of all processes of the
// supervisor, whatever the archive contains. A page that processes share counts once.
const mostMemory = 40 << 20

// A debug build has 17 MB more of its binary in memory, which all its processes share.
const (
	largestShipped = 20 << 20
	debugging      = 12 << 20
)

// summing is a plugin that reads every byte that it receives.
var summing = plugin.Definition{Name: "summing", Spec: `
generate:
  command: [sh, -c]
  args:
  - |
    printf '{"files":%s,"sum":"%s"}' "$(find . -type f | wc -l)" \
      "$(find . -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum | cut -d' ' -f1)"
discover: {find: {glob: "**/last.yaml"}}
`}

// sumOf is the expected output of summing for these files.
func sumOf(files tree.Files) string {
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	sum := sha256.New()
	for _, path := range paths {
		sum.Write([]byte(files[path]))
	}
	return fmt.Sprintf(`{"files":%d,"sum":%q}`, len(files), hex.EncodeToString(sum.Sum(nil)))
}

// Repositories that are unusually large, in number of files and in bytes.
func largeRepositories() map[string]tree.Files {
	const count, many, noises, noise = 10_000, 100, 10, 20 << 20
	manyFiles := tree.Files{"z/last.yaml": "last"}
	for i := range count - 1 {
		manyFiles[fmt.Sprintf("d%03d/e%d/f%d.yaml", i/many, i%many/10, i)] = fmt.Sprintf("number: %d\n", i)
	}
	bytes := pseudoRandom(noises*noise + noises)
	manyBytes := tree.Files{"z/last.yaml": "last"}
	for i := range noises {
		manyBytes[fmt.Sprintf("noise-%02d", i)] = string(bytes[i*noise+i : (i+1)*noise+i])
	}
	return map[string]tree.Files{"10,000 files": manyFiles, "200 MB that do not compress": manyBytes}
}

func TestOursTakesALargeRepositoryWhole(t *testing.T) {
	const limit = 5 * time.Minute
	for name, files := range largeRepositories() {
		t.Run(name, func(t *testing.T) {
			app := repositoryOf(t, files)
			s := ours(t, summing)
			c := s.dial(t, summing)
			watched := watch(t, s)
			start := time.Now()
			found, err := c.Match(within(t, limit), app)
			if err != nil || !found.GetIsSupported() {
				t.Fatalf("expected isSupported=true, got %v, error %v", found, err)
			}
			t.Logf("matched in %s", time.Since(start).Round(time.Millisecond))
			watched.madeNothing(t, s)
			watched.wasModest(t)
			start = time.Now()
			got, err := c.Generate(within(t, limit), app)
			rendered(t, got, err, sumOf(files))
			t.Logf("generated in %s", time.Since(start).Round(time.Millisecond))
			watched.wasModest(t)
		})
	}
}

// watcher repeatedly measures the memory of a server's processes and the files
// that it keeps on disk.
type watcher struct {
	mutex sync.Mutex
	peak  int64
	of    map[string]int64
	seen  map[string]bool
	stop  chan struct{}
	ended sync.WaitGroup
}

// watch starts to measure; it stops when the test ends.
func watch(t *testing.T, s subject) *watcher {
	t.Helper()
	// The kernel remembers the peak of each process, and one look costs milliseconds.
	const interval = 10 * time.Millisecond
	w := &watcher{of: map[string]int64{}, seen: map[string]bool{}, stop: make(chan struct{})}
	for _, path := range kept(s) {
		w.seen[path] = false
	}
	w.ended.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			w.look(s)
			select {
			case <-w.stop:
				return
			case <-ticker.C:
			}
		}
	})
	t.Cleanup(func() { close(w.stop); w.ended.Wait() })
	return w
}

// kept lists all files in the directories that requests may use.
func kept(s subject) []string {
	var paths []string
	for _, root := range []string{s.Folders().Work, s.Folders().Temporary} {
		_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			const requests = 2
			paths = append(paths, path)
			if err == nil && strings.Count(strings.TrimPrefix(path, root), "/") > requests {
				return fs.SkipDir
			}
			return nil
		})
	}
	return paths
}

func (w *watcher) look(s subject) {
	var sum int64
	of := map[string]int64{}
	for _, entry := range s.Processes() {
		// The plugin's own processes do not count.
		if strings.Contains(entry.Command, "cmp-supervisor") {
			bytes := proc.PeakMemoryOf(entry.Pid)
			of[entry.String()] = bytes
			sum += bytes
		}
	}
	paths := kept(s)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if sum > w.peak {
		w.peak, w.of = sum, of
	}
	for _, path := range paths {
		if _, known := w.seen[path]; !known {
			w.seen[path] = true
		}
	}
}

// madeNothing checks that discovery by names wrote nothing to disk and used no
// UID.
func (w *watcher) madeNothing(t *testing.T, s subject) {
	t.Helper()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for path, isNew := range w.seen {
		if isNew {
			t.Errorf("expected discovery by names to make no file, found %s", path)
		}
	}
	if lines := matches(t, s, 1); lines[len(lines)-1].UID != nil {
		t.Errorf("expected a log line without a uid, got %+v", lines)
	}
}

// wasModest checks the peak of memory and logs it.
func (w *watcher) wasModest(t *testing.T) {
	t.Helper()
	limit := int64(mostMemory)
	if binary, err := os.Stat(os.Getenv(oursBinary)); err == nil && binary.Size() > largestShipped {
		limit += debugging
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	t.Logf("peak of all processes: %.1f MB: %v", float64(w.peak)/1e6, w.of)
	if w.peak > limit {
		t.Errorf("expected at most %.1f MB in all processes, got %.1f", float64(limit)/1e6, float64(w.peak)/1e6)
	}
}
