package interop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/wait"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// networked is a plugin that waits for the network most of the time.
var networked = plugin.Shell("networked", "sleep 20; echo 'kind: A'")

func TestSlowRequestsAreAllAnsweredWithinTheirDeadline(t *testing.T) {
	const clients, deadline = 64, time.Minute
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"})
		ctx := within(t, deadline)
		start := time.Now()
		var group sync.WaitGroup
		for i := range clients {
			c := s.dial(t, networked)
			group.Go(func() {
				if got, err := c.Generate(ctx, repo); err != nil || len(got) != 1 {
					t.Errorf("client %d: expected one manifest, got %q, error %v", i, got, err)
				}
			})
		}
		group.Wait()
		t.Logf("%d clients were answered within %s", clients, time.Since(start).Round(time.Millisecond))
	}, networked)
}

// oneByOne starts ours with a single place for requests that generate.
func oneByOne(t *testing.T, arguments []string, definitions ...plugin.Definition) subject {
	t.Helper()
	options := needsOurs(t)
	options.Arguments = append([]string{"--max-requests", "1"}, arguments...)
	server, err := sut.StartOurs(options, scratch, definitions...)
	if err != nil {
		t.Fatal(err)
	}
	return stopped(t, server)
}

func TestOursExplainsTheQueueToAClientThatStillSends(t *testing.T) {
	// The client sees no answer before it has sent all of this.
	const size, deadline, attempts = 26 << 20, 7 * time.Second, 5
	s := oneByOne(t, nil, sleeping)
	held(t, s, sleeping)
	packed, err := repositoryOf(t, tree.Files{"noise": string(pseudoRandom(size))}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for range attempts {
		_, err = s.dial(t, sleeping).Raw(within(t, deadline), client.Generate, packed.Messages()...)
		t.Log(err)
		if status.Code(err) != codes.DeadlineExceeded {
			break
		}
		if strings.Contains(err.Error(), "no free place: the limit is 1 request at a time") {
			return
		}
		// On a busy machine, the client's own clock may be first.
	}
	t.Errorf("expected DeadlineExceeded and the reason, got %v", err)
}

func TestOursCountsARefusedRequestBeforeItsStreamEnds(t *testing.T) {
	// The stream would end by itself otherwise.
	s := oneByOne(t, []string{"--max-queue", "0", "--stream-timeout", "10m"}, sleeping)
	held(t, s, sleeping)
	whole := client.Whole(".", tree.Archive(file("noise", string(pseudoRandom(1<<20)))))
	ctx := within(t, callWithin)
	// Its answer is sent when its stream ends.
	if _, err := s.dial(t, sleeping).Stream(ctx, client.Generate, whole[:3]...); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"plugin": sleeping.FullName()}
	rejected := map[string]string{"plugin": sleeping.FullName(), "outcome": "rejected"}
	refused := 1.0
	err := wait.Until(callWithin, "the refusal of the request", func() error {
		// The first one has the only place, so these are refused too.
		_, err := s.dial(t, sleeping).Raw(ctx, client.Generate, whole...)
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("expected ResourceExhausted, got %v", err)
		}
		refused++
		families := metrics(t, s)
		got := [...]float64{
			value(families["argocd_cmp_requests_total"], rejected),
			value(families["argocd_cmp_requests_in_flight"], all),
			value(families["argocd_cmp_requests_waiting"], all),
		}
		if expected := [...]float64{refused, 1, 0}; got != expected {
			return fmt.Errorf("expected %v requests refused, in flight and waiting, got %v", expected, got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOursWaitsWhileTheClientPacksTheRepository(t *testing.T) {
	t.Parallel()
	// Longer than both clocks.
	const packing = 17 * time.Second
	d := plugin.Shell("packed", "echo 'kind: A'")
	d.Spec += "limits: {timeout: 15s}\n"
	s := oneByOne(t, []string{"--stream-timeout", "15s"}, d)
	whole := client.Whole(".", tree.Archive(file("app.yaml", "kind: App\n")))
	for _, method := range []client.Method{client.Generate, client.Match, client.Parameters} {
		for name, hasDeadline := range map[string]bool{"": true, " without a deadline": false} {
			t.Run(method.Name+name, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				if hasDeadline {
					ctx = within(t, callWithin)
				}
				stream, err := s.dial(t, d).Stream(ctx, method)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(packing)
				if err := client.Send(stream, whole...); err != nil {
					t.Fatal(err)
				}
				if _, err := client.Reply(stream, method); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestOursEndsAStreamThatStalls(t *testing.T) {
	t.Parallel()
	d := plugin.Shell("prompt", "echo 'kind: A'")
	s := oneByOne(t, []string{"--stream-timeout", "10s"}, d)
	repo := repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"})
	whole := client.Whole(".", tree.Archive(file("noise", string(pseudoRandom(1<<20)))))
	for name, sent := range map[string]int{"its metadata": 1, "two chunks": 3} {
		t.Run("after "+name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), callWithin)
			defer cancel()
			stream, err := s.dial(t, d).Stream(ctx, client.Generate, whole[:sent]...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.generate(t, d, repo); err != nil {
				t.Errorf("expected the next request to get the place, got %v", err)
			}
			err = stream.RecvMsg(new(client.Message))
			if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "the client sent less than 64Ki in 10.0s") {
				t.Errorf("expected DeadlineExceeded and the reason, got %v", err)
			}
		})
	}
}
