package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	without.Spec += "\nparameters: {static: [{name: fixed}]}"
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
		// Argo CD holds a lock of the repository until it has them.
		got, err := s.dial(t, without).Parameters(within(t, atOnceWithin), repo)
		if err != nil || len(got) != 1 || got[0].GetName() != "fixed" {
			t.Fatalf("expected its parameter at once, got %v, error %v", got, err)
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

// limited is a plugin that runs n requests at a time, each longer than any test.
func limited(n int) plugin.Definition {
	return plugin.Definition{
		Name: "limited",
		Spec: fmt.Sprintf("generate: {command: [sh, -c, \"sleep 300; true\"]}\nlimits: {requests: %d}", n),
	}
}

func TestOursSharesThePlacesOfAPluginWhoseLimitChanges(t *testing.T) {
	const explanation, attempts = "the limit is 1 request of plugin limited at a time", 5
	d, probe := limited(1), kindly("probe", "Probe")
	s := ours(t, d)
	begin := func() (mark string, end context.CancelFunc) {
		mark, app := marked(t)
		c := s.dial(t, d)
		ctx, end := context.WithCancel(within(t, callWithin))
		go func() { _, _ = c.Generate(ctx, app) }() // Ends with the test's connections.
		return mark, end
	}
	first, end := begin()
	running(t, first, 1)
	// It waits, or begins after the change: it runs in both cases, and no other ends.
	second, _ := begin()
	if err := s.Add(limited(2)); err != nil {
		t.Fatal(err)
	}
	running(t, second, 1)

	if err := s.Add(limited(1)); err != nil {
		t.Fatal(err)
	}
	// Once a later plugin is served, the change has been read.
	if err := s.Add(probe); err != nil {
		t.Fatal(err)
	}
	appears(t, s, probe)
	packed, err := repositoryOf(t, tree.Files{"x": "x"}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"while two run", "while one runs"} {
		for range attempts {
			_, err = s.dial(t, d).Raw(within(t, 3*time.Second), client.Generate, packed.Messages()...)
			t.Logf("%s: %v", when, err)
			if status.Code(err) != codes.DeadlineExceeded || strings.Contains(err.Error(), explanation) {
				break
			}
			// On a busy machine, the client's own clock may be first.
		}
		if err == nil || !strings.Contains(err.Error(), explanation) {
			t.Errorf("%s: expected a third request to wait for its place, got %v", when, err)
		}
		end()
		gone(t, s, first)
	}
}
