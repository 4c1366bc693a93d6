package interop

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/volume"
	"cmp-supervisor/tests/interop/internal/wait"
)

const (
	// stormChanges is the number of changes of the definitions.
	stormChanges = 1000
	// stormWarm is the number of changes before the server's memory is measured first.
	stormWarm = 100
	// stormPlugins is the number of plugins that clients use without pause.
	stormPlugins = 4
	// stormPause is the time between changes. It lets most changes be served before
	// the next one: the server waits for 100 ms of quiet.
	stormPause = 130 * time.Millisecond
	// stormLate is the number of changes after which a change must be served: 30 s.
	stormLate = 230
	// fewestRounds is the fewest rounds of each client, also on a busy machine, unless there are
	// less than four times as many changes.
	fewestRounds = 50
	// callsInRound is the number of calls in a client's round.
	callsInRound = 3
	// stormMemory is the limit for the growth of the server's memory, in bytes.
	stormMemory = 8 << 20
)

// inStorm is a plugin whose commands all report the number of the change. Match
// answers yes for even numbers; generate fails unless init had the same number.
func inStorm(i, change int) plugin.Definition {
	yes := ""
	if change%2 == 0 {
		yes = "echo yes"
	}
	return plugin.Definition{Name: fmt.Sprintf("storm-%d", i), Spec: fmt.Sprintf(`
init: {command: [sh, -c, 'echo %[1]d > change']}
generate: {command: [sh, -c, 'test "$(cat change)" = %[1]d || exit 9; echo "kind: C%[1]d"']}
discover: {find: {command: [sh, -c, 'true; %[2]s']}}
`, change, yes)}
}

// storm is the state that all clients share.
type storm struct {
	subject
	published [stormPlugins]atomic.Int64
	calls     atomic.Int64
	seen      sync.Map
}

func TestOursReloadStorm(t *testing.T) {
	// It takes two minutes, and the other parallel tests only wait.
	t.Parallel()
	changes := stormChanges
	if testing.Short() {
		changes = 2 * stormWarm
	}
	options := needsOurs(t)
	var mount *volume.Volume
	options.Prepare = func(f sut.Folders) error {
		mount = volume.New(f.Plugins)
		_, err := mount.Update(stormPayload(0))
		return err
	}
	server, err := sut.Launch(options, scratch)
	if err != nil {
		t.Fatal(err)
	}
	s := &storm{subject: stopped(t, server)}
	for i := range stormPlugins {
		if err := sut.Ready(s, inStorm(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	stop, failures := s.clients(t)
	var before holding
	for change := 1; change <= changes; change++ {
		if change == stormWarm {
			before = s.holds(server)
		}
		for i := range stormPlugins {
			s.published[i].Store(int64(change))
		}
		if _, err := mount.Update(stormPayload(change)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(stormPause)
		if len(failures) > 0 {
			break
		}
	}
	stop()
	close(failures)
	for failure := range failures {
		t.Error(failure)
	}
	if t.Failed() {
		return
	}
	s.lastWins(t, changes)
	seen := 0
	s.seen.Range(func(any, any) bool { seen++; return true })
	var after holding
	leaks := wait.Until(goneWithin, "the server to hold what it held", func() error {
		after = s.holds(server)
		return after.isMoreThan(before)
	})
	t.Logf("%d changes, %d calls, %d different definitions seen; before %+v, after %+v", changes, s.calls.Load(), seen, before, after)
	// A client sees one change in each round, and on a busy machine it makes few rounds.
	rounds := int(s.calls.Load()) / callsInRound / stormPlugins
	if rounds < min(changes/4, fewestRounds) || seen < min(changes, rounds)/2 {
		t.Errorf("expected most of %d changes to be served to clients with %d rounds, got %d", changes, rounds, seen)
	}
	if leaks != nil {
		t.Error(leaks)
	}
}

// stormPayload is all definitions at a change: the plugins in use, one that comes
// and goes, one that is broken at every other change, and one whose key moves.
func stormPayload(change int) map[string]string {
	var definitions []plugin.Definition
	for i := range stormPlugins {
		definitions = append(definitions, inStorm(i, change))
	}
	payload := volume.Payload(definitions...)
	if change%3 == 0 {
		maps.Copy(payload, volume.Payload(kindly("flapping", "Flapping")))
	}
	payload["broken.yaml"] = kindly("broken", "Good").YAML()
	if change%2 == 1 {
		payload["broken.yaml"] = "kind: ["
	}
	payload[fmt.Sprintf("moving-%d.yaml", change%5)] = kindly("moving", "Moving").YAML()
	return payload
}

// clients makes calls without pause until it is stopped.
func (s *storm) clients(t *testing.T) (stop func(), failures chan error) {
	t.Helper()
	app := repositoryOf(t, tree.Files{"x": "x"})
	failures = make(chan error, 2*stormPlugins)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	work := func(round func() error) {
		group.Go(func() {
			for ctx.Err() == nil {
				if err := round(); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	for i := range stormPlugins {
		work(func() error { return s.round(i, app) })
	}
	work(func() error { return s.steady(kindly("broken", "Good"), app) })
	work(func() error { return s.steady(kindly("moving", "Moving"), app) })
	return func() { cancel(); group.Wait() }, failures
}

var kindOfChange = regexp.MustCompile(`^\{"kind":"C(\d+)"\}$`)

// round makes the calls of the repo-server for one application. They use one
// connection, so all must show the same change.
func (s *storm) round(i int, app client.App) error {
	d := inStorm(i, 0)
	oldest := s.published[i].Load() - stormLate
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	c, err := client.Dial(ctx, s.Socket(d))
	if err != nil {
		return fmt.Errorf("%s: dial: %w", d.Name, err)
	}
	defer c.Close()
	matched, err := c.Match(ctx, app)
	if err != nil {
		return fmt.Errorf("%s: match: %w", d.Name, err)
	}
	first := int64(-1)
	for range 2 {
		got, err := c.Generate(ctx, app)
		if err != nil {
			return fmt.Errorf("%s: generate: %w", d.Name, err)
		}
		found := kindOfChange.FindStringSubmatch(strings.Join(got, ""))
		if found == nil {
			return fmt.Errorf("%s: expected one manifest of a change, got %q", d.Name, got)
		}
		change, _ := strconv.ParseInt(found[1], 10, 64) // The pattern has digits only.
		if newest := s.published[i].Load(); change < oldest || change > newest {
			return fmt.Errorf("%s: expected a change from %d to %d, got %d", d.Name, oldest, newest, change)
		}
		if first >= 0 && first != change {
			return fmt.Errorf("%s: one connection saw the changes %d and %d", d.Name, first, change)
		}
		if matched.GetIsSupported() != (change%2 == 0) {
			return fmt.Errorf("%s: change %d generates, and another matched", d.Name, change)
		}
		first = change
		s.seen.Store(change, true)
	}
	s.calls.Add(callsInRound)
	return nil
}

// steady is a plugin that must always render the same.
func (s *storm) steady(d plugin.Definition, app client.App) error {
	got, err := s.once(d, app)
	if err != nil || len(got) != 1 {
		return fmt.Errorf("%s: expected a manifest, got %q, error %w", d.Name, got, err)
	}
	s.calls.Add(1)
	return nil
}

// once renders by a connection of its own, which is closed at once.
func (s *storm) once(d plugin.Definition, app client.App) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	c, err := client.Dial(ctx, s.Socket(d))
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	defer c.Close()
	return c.Generate(ctx, app)
}

// lastWins waits until every plugin shows the last change.
func (s *storm) lastWins(t *testing.T, last int) {
	t.Helper()
	app := repositoryOf(t, tree.Files{"x": "x"})
	for i := range stormPlugins {
		err := wait.Until(reloadWithin, "the last definition", func() error {
			got, err := s.once(inStorm(i, 0), app)
			if want := fmt.Sprintf(`{"kind":"C%d"}`, last); err != nil || len(got) != 1 || got[0] != want {
				return fmt.Errorf("expected %s, got %q, error %v", want, got, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// holding is the number of resources that a supervisor holds.
type holding struct {
	descriptors, threads int
	memory               int64
}

// isMoreThan returns an error if this is clearly more than before. Connections and threads
// of clients that have stopped may end late.
func (h holding) isMoreThan(before holding) error {
	if h.descriptors > before.descriptors+leaked || h.threads > before.threads+leaked || h.memory > before.memory+stormMemory {
		return fmt.Errorf("got %+v after %+v", h, before)
	}
	return nil
}

func (s *storm) holds(server *sut.Ours) holding {
	pid := server.Process().Pid()
	open, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd")) // Judged by its number.
	status := proc.StatusOf(pid)
	threads, _ := strconv.Atoi(status["Threads"]) // The kernel writes a number.
	return holding{len(open), threads, status.Bytes("VmRSS")}
}
