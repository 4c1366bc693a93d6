package interop

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/volume"
	"cmp-supervisor/tests/interop/internal/wait"
)

// kindly is a plugin that renders one manifest of the given kind.
func kindly(name, kind string) plugin.Definition {
	return plugin.Shell(name, "echo 'kind: "+kind+"'")
}

// becomes repeats a call until the plugin renders the kind; no call may fail.
func becomes(t *testing.T, s subject, d plugin.Definition, app client.App, kind string) {
	t.Helper()
	start := time.Now()
	err := wait.Until(reloadWithin, "kind: "+kind, func() error {
		got, err := s.generate(t, d, app)
		if err != nil {
			return fmt.Errorf("a call failed during the reload: %w", errors.Join(err, wait.ErrNever))
		}
		if len(got) != 1 || got[0] != `{"kind":"`+kind+`"}` {
			return fmt.Errorf("got %q", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s after %s", kind, time.Since(start).Round(time.Millisecond))
}

func TestOursTakesUpChangesWhileItServes(t *testing.T) {
	first, other := kindly("changing", "First"), kindly("other", "Other")
	s := ours(t, first, other)
	repo := repositoryOf(t, tree.Files{"x": "x"})
	// An older connection must not be disturbed.
	old := s.dial(t, other)
	becomes(t, s, first, repo, "First")

	if err := s.Add(kindly("changing", "Second")); err != nil {
		t.Fatal(err)
	}
	becomes(t, s, first, repo, "Second")

	added := kindly("added", "Added")
	if err := s.Add(added); err != nil {
		t.Fatal(err)
	}
	appears(t, s, added)
	becomes(t, s, added, repo, "Added")

	if err := os.Remove(s.Server.(*sut.Ours).File(added)); err != nil {
		t.Fatal(err)
	}
	if err := wait.Until(reloadWithin, "the removed plugin's socket to go", func() error { return absent(s.Socket(added)) }); err != nil {
		t.Error(err)
	}
	got, err := old.Generate(within(t, callWithin), repo)
	rendered(t, got, err, `{"kind":"Other"}`)
}

func TestOursKeepsTheLastGoodDefinition(t *testing.T) {
	d := kindly("steady", "Good")
	probe := kindly("probe", "Probe")
	s := ours(t, d)
	if err := os.WriteFile(s.Server.(*sut.Ours).File(d), []byte("kind: [\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// Once a later plugin is served, the broken file has been read.
	if err := s.Add(probe); err != nil {
		t.Fatal(err)
	}
	appears(t, s, probe)
	got, err := s.generate(t, d, repositoryOf(t, tree.Files{"x": "x"}))
	rendered(t, got, err, `{"kind":"Good"}`)
}

func TestOursFollowsAMountedConfigMap(t *testing.T) {
	d, added := kindly("mounted", "First"), kindly("added", "Added")
	options := needsOurs(t)
	var mount *volume.Volume
	options.Prepare = func(f sut.Folders) error {
		mount = volume.New(f.Plugins)
		_, err := mount.Update(volume.Payload(d))
		return err
	}
	// The definition exists only in the mount.
	server, err := sut.Launch(options, scratch)
	if err != nil {
		t.Fatal(err)
	}
	s := stopped(t, server)
	if err := sut.Ready(s, d); err != nil {
		t.Fatal(err)
	}
	repo := repositoryOf(t, tree.Files{"x": "x"})
	becomes(t, s, d, repo, "First")
	if _, err := mount.Update(volume.Payload(kindly("mounted", "Second"), added)); err != nil {
		t.Fatal(err)
	}
	becomes(t, s, d, repo, "Second")
	appears(t, s, added)
	becomes(t, s, added, repo, "Added")
}
