package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/wait"
)

// needsIdentities skips the test if requests cannot have their own UIDs.
func needsIdentities(t *testing.T) {
	t.Helper()
	options := needsOurs(t)
	if os.Geteuid() != 0 {
		lacks(t, "needs root, because only root can give each request its own UID")
	}
	if slices.Contains([]string{"landlock", "none"}, options.Isolation) {
		t.Skipf("skipped: %s=%s runs all requests under the server's UID", oursIsolation, options.Isolation)
	}
}

// held starts a call that lasts until the test ends it, and returns the plugin's
// processes.
func held(t *testing.T, s subject, d plugin.Definition) (mark string, processes []proc.Entry) {
	t.Helper()
	mark, app := marked(t)
	c := s.dial(t, d)
	ctx := within(t, callWithin)
	go func() { _, _ = c.Generate(ctx, app) }() // Ends with the test's connections.
	return mark, running(t, mark, 1)
}

func TestOursGivesEveryRequestAUserOfItsOwn(t *testing.T) {
	needsIdentities(t)
	s := ours(t, sleeping)
	taken := map[int]string{0: "root"}
	for _, entry := range s.Processes() {
		taken[proc.StatusOf(entry.Pid).UID()] = "the server's process " + entry.String()
	}
	for range 3 {
		mark, processes := held(t, s, sleeping)
		uids := map[int]bool{}
		for _, entry := range processes {
			status := proc.StatusOf(entry.Pid)
			uid := status.UID()
			if owner, isTaken := taken[uid]; isTaken {
				t.Errorf("expected a user of its own for %s, got %d, which is that of %s", entry, uid, owner)
			}
			uids[uid] = true
			unprivileged(t, entry, status)
		}
		for uid := range uids {
			taken[uid] = "the request " + mark
		}
	}
}

// unprivileged checks the kernel's record of a plugin's process.
func unprivileged(t *testing.T, entry proc.Entry, status proc.Status) {
	t.Helper()
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		if strings.Trim(status[set], "0") != "" {
			t.Errorf("%s: expected no capabilities in %s, got %s", entry, set, status[set])
		}
	}
	if status["NoNewPrivs"] != "1" {
		t.Errorf("%s: expected NoNewPrivs 1, got %s", entry, status["NoNewPrivs"])
	}
	// The real, effective, saved and file system UIDs.
	for _, row := range []string{"Uid", "Gid"} {
		ids := strings.Fields(status[row])
		slices.Sort(ids)
		if len(slices.Compact(ids)) != 1 || slices.Contains(ids, "0") {
			t.Errorf("%s: expected one %s that is not 0, got %s", entry, row, status[row])
		}
	}
	if groups := strings.Fields(status["Groups"]); slices.Contains(groups, "0") {
		t.Errorf("%s: expected not to be in group 0, got %v", entry, groups)
	}
}

// places prints the directories that a request may write to and their contents,
// and leaves files behind.
var places = plugin.Shell("places", `
found=$(ls -A "$HOME" "$TMPDIR" | grep -v '^/' | grep -c .)
echo "{\"home\":\"$HOME\",\"tmpdir\":\"$TMPDIR\",\"cwd\":\"$(pwd -P)\",\"uid\":$(id -u),\"found\":$found}"
echo x > "$HOME/left" && echo x > "$TMPDIR/left" && mktemp >/dev/null && touch left
`)

// place is the output of places.
type place struct {
	Home, Tmpdir, Cwd string
	UID, Found        int
}

func TestOursGivesEveryRequestPlacesOfItsOwn(t *testing.T) {
	s := ours(t, places)
	app := repositoryOf(t, tree.Files{"deep/app/x": "x"})
	for range 3 {
		got := placesOf(t, s, at(app, "deep/app"))
		root := strings.TrimSuffix(got.Cwd, "/deep/app")
		for name, path := range map[string]string{"HOME": got.Home, "TMPDIR": got.Tmpdir} {
			if path == "" || inside(path, root) {
				t.Errorf("expected %s outside of the repository %s, got %q", name, root, path)
			}
			if err := wait.Until(goneWithin, name+" to be removed", func() error { return absent(path) }); err != nil {
				t.Error(err)
			}
		}
		if got.Found != 0 {
			t.Errorf("expected HOME and TMPDIR to be empty at the start, found %d files", got.Found)
		}
		if err := wait.Until(goneWithin, "the repository to be removed", func() error { return absent(root) }); err != nil {
			t.Error(err)
		}
	}
}

func placesOf(t *testing.T, s subject, app client.App) place {
	t.Helper()
	manifests, err := s.generate(t, places, app)
	if err != nil || len(manifests) != 1 {
		t.Fatalf("expected one manifest, got %q, error %v", manifests, err)
	}
	var got place
	decode(t, manifests[0], &got)
	return got
}

func inside(path, root string) bool {
	relative, err := filepath.Rel(root, path)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, "../")
}

func absent(path string) error {
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		return fmt.Errorf("%s is still there (%v)", path, err)
	}
	return nil
}
