package interop

import (
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"
)

// atOnceWithin is the time limit on a busy machine for an answer that waits for
// no command.
const atOnceWithin = time.Minute

func TestOursDecidesByNamesWhateverElseRuns(t *testing.T) {
	options := needsOurs(t)
	// One place for generate, and one for discovery by a command.
	options.Arguments = []string{"--max-requests", "1"}
	named := plugin.Definition{Name: "named", Spec: "generate: {command: [cat, app.yaml]}\ndiscover: {fileName: app.yaml}"}
	globbed := discovering("globbed", `{find: {glob: "**/app.yaml"}}`)
	without := plugin.Shell("without", "true")
	server, err := sut.StartOurs(options, scratch, named, globbed, without, sleeping)
	if err != nil {
		t.Fatal(err)
	}
	s := stopped(t, server)
	repo := repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"})

	answers := func(t *testing.T) {
		t.Helper()
		for d, want := range map[*plugin.Definition]bool{&named: true, &globbed: true, &without: false} {
			// Two requests of each kind: the second is answered from the cache.
			for range 2 {
				start := time.Now()
				got, err := s.dial(t, *d).Match(within(t, atOnceWithin), repo)
				if err != nil || got.GetIsSupported() != want {
					t.Fatalf("%s: expected isSupported=%v, got %v, error %v", d.Name, want, got, err)
				}
				t.Logf("%s answered after %s", d.Name, time.Since(start).Round(time.Millisecond))
			}
		}
	}
	held(t, s, sleeping)
	t.Run("while the only place for generating is taken", answers)

	finding, app := marked(t)
	c, ctx := s.dial(t, sleeping), within(t, callWithin)
	go func() { _, _ = c.Match(ctx, app) }() // Ends with the test's connections.
	running(t, finding, 1)
	t.Run("while a command of discovery runs as well", answers)

	// Both lanes are full.
	if _, err := s.dial(t, named).Generate(within(t, time.Second), repo); err == nil {
		t.Error("expected a second generate to wait for its place")
	}
	late := s.dial(t, sleeping)
	if _, err := late.Match(within(t, time.Second), repo); err == nil {
		t.Error("expected a second command of discovery to wait for its place")
	}
}
