package interop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/wait"

	"google.golang.org/grpc/codes"
)

func TestOursLeavesNothingOfAKilledPlugin(t *testing.T) {
	s := ours(t, sleeping, streaming)
	mark, app := marked(t)
	c := s.dial(t, sleeping)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Generate(within(t, callWithin), app)
		ended <- err
	}()
	shell := started(t, mark, "sh -c")
	shell.Kill()
	refused(t, s, <-ended, codes.Unknown, "error generating manifests: `sh -c \"sleep 300; true\"` failed signal: killed")
	gone(t, s, mark)
	got, err := s.generate(t, streaming, repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"}))
	rendered(t, got, err, `{"kind":"App"}`)
}

// started waits for a marked process whose command begins with a text. A worker has the mark
// shortly before it becomes the command.
func started(t *testing.T, mark, command string) proc.Entry {
	t.Helper()
	var entry proc.Entry
	err := wait.Until(appearsWithin, command, func() error {
		found := running(t, mark, 1)
		at := slices.IndexFunc(found, func(e proc.Entry) bool { return strings.HasPrefix(e.Command, command) })
		if at < 0 {
			return fmt.Errorf("expected it among %v", found)
		}
		entry = found[at]
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func TestOursLeavesNothingOfAKilledWorker(t *testing.T) {
	needsIdentities(t)
	s := ours(t, sleeping, streaming)
	mark, app := marked(t)
	c := s.dial(t, sleeping)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Generate(within(t, callWithin), app)
		ended <- err
	}()
	worker := eldestOfUser(running(t, mark, 1)[0])
	t.Logf("the worker is %s", worker)
	worker.Kill()
	if err := <-ended; err == nil {
		t.Error("expected an error, got manifests")
	}
	gone(t, s, mark)
	got, err := s.generate(t, streaming, repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"}))
	rendered(t, got, err, `{"kind":"App"}`)
}

// eldestOfUser is the oldest ancestor with the same UID.
func eldestOfUser(entry proc.Entry) proc.Entry {
	uid := proc.StatusOf(entry.Pid).UID()
	all := map[int]proc.Entry{}
	for _, each := range proc.All() {
		all[each.Pid] = each
	}
	for {
		parent, known := all[entry.Parent]
		if !known || proc.StatusOf(parent.Pid).UID() != uid {
			return entry
		}
		entry = parent
	}
}

func TestOursLeavesNothingWhenTheSupervisorIsKilled(t *testing.T) {
	options := needsOurs(t)
	s := ours(t, sleeping, streaming)
	mark, _ := held(t, s, sleeping)
	all := s.Processes()
	s.Server.(*sut.Ours).Process().Signal(syscall.SIGKILL)
	err := wait.Until(goneWithin, "all processes to go with the supervisor", func() error {
		left := slices.DeleteFunc(append(all, proc.Marked(mark)...), func(e proc.Entry) bool { return !e.Alive() })
		if len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The next supervisor takes over the dead sockets and removes the leftovers on disk.
	folders := s.Folders()
	options.Folders = &folders
	next, err := sut.StartOurs(options, scratch, sleeping, streaming)
	if err != nil {
		t.Fatal(err)
	}
	successor := stopped(t, next)
	gone(t, successor, mark)
	got, err := successor.generate(t, streaming, repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"}))
	rendered(t, got, err, `{"kind":"App"}`)
}

func TestOursLetsNoProcessEscape(t *testing.T) {
	// Each process leaves its process group; the second also leaves its parent.
	definitions := []plugin.Definition{
		plugin.Shell("session", `setsid sh -c 'touch out; sleep 300; true' >/dev/null 2>&1 & `+untilOut),
		plugin.Shell("orphan", `(setsid sh -c 'trap "" TERM INT HUP; touch out; sleep 300; sleep 300' >/dev/null 2>&1 &) ; `+untilOut),
		plugin.Shell("nohup", `nohup sh -c 'touch out; sleep 300; true' >/dev/null 2>&1 & `+untilOut),
	}
	s := ours(t, definitions...)
	for _, d := range definitions {
		mark, app := marked(t)
		got, err := s.generate(t, d, app)
		rendered(t, got, err, `{"kind":"App"}`)
		gone(t, s, mark)
	}
}

func TestOursEndsAnEscapedProcessThatHoldsTheOutput(t *testing.T) {
	const deadline, attempts = 3 * time.Second, 5
	const reason = "it had ended, but a process that it started kept its standard output open"
	d := plugin.Shell("hold", `setsid sh -c 'touch out; sleep 300; true' & `+untilOut)
	s := ours(t, d)
	for range attempts {
		mark, app := marked(t)
		got, err := s.dial(t, d).Generate(within(t, deadline), app)
		if err == nil {
			t.Fatalf("expected an error at the deadline, got the manifests %q", got)
		}
		gone(t, s, mark)
		if strings.Contains(err.Error(), reason) {
			return
		}
		// On a busy machine, the client's own clock may be first.
		t.Log(err)
	}
	t.Errorf("expected an error with %q", reason)
}

func TestOursNeverTakesACutOutputForAWholeOne(t *testing.T) {
	const deadline, attempts = time.Second, 5
	// The command exits with 0 on SIGTERM, but its output up to then is incomplete.
	d := plugin.Shell("polite", `trap 'exit 0' TERM; echo 'kind: OnlyTheFirstHalf'; sleep 300 & wait`)
	s := ours(t, d)
	for range attempts {
		mark, app := marked(t)
		if got, err := s.dial(t, d).Generate(within(t, deadline), app); err == nil {
			t.Fatalf("expected an error at the deadline, got the manifests %q", got)
		}
		gone(t, s, mark)
	}
}

func TestOursEndsWellOnSIGTERM(t *testing.T) {
	options := needsOurs(t)
	options.Arguments = []string{"--drain-timeout", "5m"}
	d := plugin.Shell("long", `sleep 300; echo 'kind: Finished'`)
	server, err := sut.StartOurs(options, scratch, d)
	if err != nil {
		t.Fatal(err)
	}
	s := stopped(t, server)
	mark, app := marked(t)
	type outcome struct {
		manifests []string
		err       error
	}
	c := s.dial(t, d)
	ended := make(chan outcome, 1)
	go func() {
		manifests, err := c.Generate(within(t, callWithin), app)
		ended <- outcome{manifests, err}
	}()
	sleeper := started(t, mark, "sleep 300")
	process := server.Process()
	process.Signal(syscall.SIGTERM)
	if err := wait.Until(goneWithin, "the supervisor to stop", func() error {
		if log := s.Log(); !strings.Contains(log, `"msg":"stopping"`) {
			return errors.New(log)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	sleeper.Kill() // The shell goes on without it.
	got := <-ended
	rendered(t, got.manifests, got.err, `{"kind":"Finished"}`)
	c.Close()
	if code, err := process.Exit(goneWithin); err != nil || code != 0 {
		t.Errorf("expected exit code 0 within %s, got %d (%v)", goneWithin, code, err)
	}
	if err := absent(s.Socket(d)); err != nil {
		t.Errorf("expected no socket afterwards: %v", err)
	}
	gone(t, s, mark)
}
