package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/wait"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// late is the time after its deadline within which a call must return on a busy machine.
const late = 30 * time.Second

// sleeping is a plugin whose commands all run longer than any test.
var sleeping = plugin.Definition{Name: "sleeping", Spec: `
generate: {command: [sh, -c, "sleep 300; true"]}
discover: {find: {command: [sh, -c, "sleep 300; true"]}}
parameters: {dynamic: {command: [sh, -c, "sleep 300; true"]}}
`}

// call makes one of the three calls.
type call func(c *client.Client, ctx context.Context, app client.App) error

// calls are the three calls that run a command.
var calls = map[string]call{
	"generate": func(c *client.Client, ctx context.Context, app client.App) error {
		_, err := c.Generate(ctx, app)
		return err
	},
	"match": func(c *client.Client, ctx context.Context, app client.App) error {
		_, err := c.Match(ctx, app)
		return err
	},
	"parameters": func(c *client.Client, ctx context.Context, app client.App) error {
		_, err := c.Parameters(ctx, app)
		return err
	},
}

func TestADeadlineEndsTheCommand(t *testing.T) {
	const deadline = 1500 * time.Millisecond
	onEach(t, func(t *testing.T, s subject) {
		for _, method := range methods {
			t.Run(method.Name, func(t *testing.T) {
				mark, app := marked(t)
				packed, err := app.Pack()
				if err != nil {
					t.Fatal(err)
				}
				c := s.dial(t, sleeping)
				start := time.Now()
				// Sent raw: on a busy machine, the deadline may pass while the client still sends.
				_, err = c.Raw(within(t, deadline), method, packed.Messages()...)
				took := time.Since(start)
				t.Logf("after %s: %v", took.Round(time.Millisecond), err)
				// The server's answer and the client's own deadline are 100 ms apart; either may come first.
				switch got := status.Convert(err); {
				case err == nil:
					t.Error("expected an error, got success")
				case got.Code() == codes.DeadlineExceeded:
				case got.Code() == codes.Unknown && strings.Contains(got.Message(), "failed signal: "):
				default:
					t.Errorf("expected DeadlineExceeded or `…` failed signal: …, got %v", err)
				}
				if took < deadline/2 || took > deadline+late {
					t.Errorf("expected the call to take about %s, it took %s", deadline, took)
				}
				gone(t, s, mark)
			})
		}
	}, sleeping)
}

func TestADeadlineThatIsAlreadyOverRunsNothing(t *testing.T) {
	// Shorter than the 100 ms that the server reserves for its answer.
	const deadline = 60 * time.Millisecond
	onEach(t, func(t *testing.T, s subject) {
		for _, method := range methods {
			t.Run(method.Name, func(t *testing.T) {
				mark, app := marked(t)
				packed, err := app.Pack()
				if err != nil {
					t.Fatal(err)
				}
				// Sent raw, because the peer may answer before it has received the archive.
				_, err = s.dial(t, sleeping).Raw(within(t, deadline), method, packed.Messages()...)
				if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "context deadline exceeded") {
					t.Errorf("expected DeadlineExceeded and %q, got %v", "context deadline exceeded", err)
				}
				gone(t, s, mark)
			})
		}
	}, sleeping)
}

func TestWhatACommandStartedMayCleanUpAtTheDeadline(t *testing.T) {
	// The command must have set its trap by then.
	const deadline, attempts = 3 * time.Second, 8
	d := plugin.Shell("tidy", `(trap 'echo cleanup completed >&2; exit' TERM; sleep 300); true`)
	onEach(t, func(t *testing.T, s subject) {
		for range attempts {
			mark, app := marked(t)
			packed, err := app.Pack()
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.dial(t, d).Raw(within(t, deadline), client.Generate, packed.Messages()...)
			gone(t, s, mark)
			if status.Code(err) == codes.DeadlineExceeded && !strings.Contains(err.Error(), "sh -c") {
				continue // The client's own clock was first; nothing to learn.
			}
			if err == nil || !strings.Contains(err.Error(), "cleanup completed") {
				t.Errorf("expected an error with %q in it, got %v", "cleanup completed", err)
			}
			return
		}
		t.Errorf("expected the server's own answer in one of %d attempts, got only the client's deadline", attempts)
	}, d)
}

func TestACancelledCallLeavesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, s subject) {
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				mark, app := marked(t)
				c := s.dial(t, sleeping)
				ctx, cancel := context.WithCancel(within(t, callWithin))
				ended := make(chan error, 1)
				go func() { ended <- call(c, ctx, app) }()
				running(t, mark, 1)
				cancel()
				if err := <-ended; status.Code(err) != codes.Canceled {
					t.Errorf("expected Canceled, got %v", err)
				}
				gone(t, s, mark)
			})
		}
	}, sleeping)
}

func TestACallCancelledWhileItSendsLeavesNothing(t *testing.T) {
	archive := tree.Archive(file("noise", string(pseudoRandom(1<<20))))
	whole := client.Whole(".", archive)
	onEach(t, func(t *testing.T, s subject) {
		c := s.dial(t, streaming)
		before := files(s)
		for _, sent := range []int{0, 1, 2, len(whole) / 2, len(whole)} {
			ctx, cancel := context.WithCancel(within(t, callWithin))
			if _, err := c.Stream(ctx, client.Generate, whole[:sent]...); err != nil {
				t.Errorf("after %d messages: %v", sent, err)
			}
			cancel()
		}
		unchanged(t, s, before)
		if _, err := c.Raw(within(t, callWithin), client.Generate, client.Whole(".", appArchive)...); err != nil {
			t.Errorf("expected the connection to live on, got %v", err)
		}
		if s.isOurs() {
			countedAsCancelled(t, s)
		}
	}, streaming)
}

// countedAsCancelled waits until all calls have ended. Streams of cancelled ones are not broken.
func countedAsCancelled(t *testing.T, s subject) {
	t.Helper()
	requests := func(outcome string) float64 {
		return value(metrics(t, s)["argocd_cmp_requests_total"], map[string]string{"outcome": outcome})
	}
	if err := wait.Until(callWithin, "cancelled calls, and the end of all", func() error {
		open := value(metrics(t, s)["argocd_cmp_requests_in_flight"], nil)
		if cancelled := requests("client_cancelled"); open > 0 || cancelled == 0 {
			return fmt.Errorf("%v have not ended, %v were cancelled", open, cancelled)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	broken, faults := requests("bad_stream"), value(metrics(t, s)["argocd_cmp_stream_errors_total"], nil)
	if broken+faults > 0 {
		t.Errorf("expected no broken streams, got %v with %v faults", broken, faults)
	}
}

func TestAKilledClientLeavesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, s subject) {
		mark, app := marked(t)
		command := exec.Command("/proc/self/exe")
		command.Env = append(os.Environ(), clientSocket+"="+s.Socket(sleeping), clientRoot+"="+app.Root, clientEnv+"="+app.Env[0])
		killed, err := proc.Start(command)
		if err != nil {
			t.Fatal(err)
		}
		running(t, mark, 1, killed.Pid())
		if err := killed.Kill(); err != nil {
			t.Error(err)
		}
		if output := killed.Output(); output != "" {
			t.Errorf("the client was to be killed during its call, it said: %s", output)
		}
		gone(t, s, mark)
		if err := checkConfiguration(t, s, sleeping); err != nil {
			t.Errorf("expected the server to live on, got %v", err)
		}
	}, sleeping)
}
