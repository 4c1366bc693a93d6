package interop

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/wait"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/emptypb"
)

// manyCalls is enough calls to notice a connection that ends between calls, or a
// descriptor that leaks with each call.
const manyCalls = 200

// leaked is the number of additional descriptors that a server may hold afterwards.
const leaked = 10

// echoing prints the application's name.
var echoing = plugin.Definition{Name: "echoing", Spec: `
generate: {command: [sh, -c, 'echo "kind: App"; cat name']}
discover: {fileName: name}
parameters: {static: [{name: a}], dynamic: {command: [echo, '[]']}}
`}

// named is an application that renders its own name.
func named(t *testing.T, name string) (app client.App, manifest string) {
	t.Helper()
	app = repositoryOf(t, tree.Files{"name": "name: " + name + "\n"})
	return app, fmt.Sprintf(`{"kind":"App","name":"%s"}`, name)
}

func TestManyCallsOnFreshConnections(t *testing.T) {
	onEach(t, func(t *testing.T, s subject) {
		app, manifest := named(t, "fresh")
		before := atRest(func() int { return descriptors(t, s) })
		start := time.Now()
		for i := range manyCalls {
			c, err := client.Dial(within(t, callWithin), s.Socket(echoing))
			if err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
			got, err := c.Generate(within(t, callWithin), app)
			c.Close()
			rendered(t, got, err, manifest)
		}
		t.Logf("%d calls on fresh connections: %s each", manyCalls, (time.Since(start) / manyCalls).Round(time.Microsecond))
		settled(t, s, before)
	}, echoing)
}

func TestManyCallsOnOneConnection(t *testing.T) {
	onEach(t, func(t *testing.T, s subject) {
		app, _ := named(t, "one")
		c := s.dial(t, echoing)
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				before := atRest(func() int { return descriptors(t, s) })
				start := time.Now()
				for i := range manyCalls {
					if err := call(c, within(t, callWithin), app); err != nil {
						t.Fatalf("call %d: expected an answer, got %v", i, err)
					}
				}
				t.Logf("%d calls on one connection: %s each", manyCalls, (time.Since(start) / manyCalls).Round(time.Microsecond))
				settled(t, s, before)
			})
		}
	}, echoing)
}

func TestAllCallsMayShareAConnection(t *testing.T) {
	// The calls of the repo-server for one application: two checks, a match, a generate.
	onEach(t, func(t *testing.T, s subject) {
		app, manifest := named(t, "shared")
		c := s.dial(t, echoing)
		for i := range manyCalls / 10 {
			if _, err := c.CheckPluginConfiguration(within(t, callWithin), &emptypb.Empty{}); err != nil {
				t.Fatalf("round %d: expected the configuration, got %v", i, err)
			}
			if got, err := c.Match(within(t, callWithin), app); err != nil || !got.GetIsSupported() {
				t.Fatalf("round %d: expected a match, got %v, error %v", i, got, err)
			}
			if got, err := c.Parameters(within(t, callWithin), app); err != nil || len(got) != 1 {
				t.Fatalf("round %d: expected one parameter, got %v, error %v", i, got, err)
			}
			got, err := c.Generate(within(t, callWithin), app)
			rendered(t, got, err, manifest)
		}
	}, echoing)
}

func TestCallsAtTheSameTimeDoNotMix(t *testing.T) {
	const clients, each = 8, 10
	onEach(t, func(t *testing.T, s subject) {
		shared := s.dial(t, echoing)
		var group sync.WaitGroup
		for i := range clients {
			app, manifest := named(t, fmt.Sprintf("client-%d", i))
			c := shared
			if i%2 == 0 {
				c = s.dial(t, echoing)
			}
			group.Go(func() {
				for range each {
					got, err := c.Generate(within(t, callWithin), app)
					if err != nil || len(got) != 1 || got[0] != manifest {
						t.Errorf("client %d: expected %s, got %q, error %v", i, manifest, got, err)
						return
					}
				}
			})
		}
		group.Wait()
	}, echoing)
}

func TestABurstOfCallsIsServed(t *testing.T) {
	// The calls follow each other at once, with archives packed in advance, because
	// the cleanup after calls must not exhaust the server.
	const clients, each, files = 2, 100, 20
	onEach(t, func(t *testing.T, s subject) {
		contents := tree.Files{"name": "name: burst\n"}
		for i := range files {
			contents[fmt.Sprintf("directory-%d/file-%d", i%7, i)] = "x"
		}
		packed, err := repositoryOf(t, contents).Pack()
		if err != nil {
			t.Fatal(err)
		}
		for _, method := range methods {
			var group sync.WaitGroup
			for range clients {
				c := s.dial(t, echoing)
				group.Go(func() {
					for i := range each {
						if _, err := c.Raw(within(t, callWithin), method, packed.Messages()...); err != nil {
							t.Errorf("%s, call %d of %d: expected an answer, got %v", method.Name, i, each, err)
							return
						}
					}
				})
			}
			group.Wait()
		}
	}, echoing)
}

func TestPingsAreAnsweredWhileACommandRuns(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped: takes 32 s per server, because gRPC pings no sooner than after 10 s; run without -short")
	}
	// Argo CD sends a ping after 20 s and waits 20 s for the answer. The command outlasts
	// both times, or a missing answer would not be noticed.
	const ping, patience = 10 * time.Second, 20 * time.Second
	d := plugin.Shell("slow", "sleep 32; echo 'kind: Slow'")
	onEach(t, func(t *testing.T, s subject) {
		app := repositoryOf(t, tree.Files{"x": "x"})
		packed, err := app.Pack()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := grpc.NewClient("unix:"+s.Socket(d), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: ping, Timeout: patience}))
		if err != nil {
			t.Fatal(err)
		}
		c := &client.Client{Conn: conn}
		t.Cleanup(c.Close)
		reply, err := c.Raw(within(t, callWithin), client.Generate, packed.Messages()...)
		if err != nil {
			t.Fatalf("expected the connection to live through a ping, got %v", err)
		}
		rendered(t, reply.(*plugins.ManifestResponse).GetManifests(), nil, `{"kind":"Slow"}`)
	}, d)
}

// settling is the time after a start, or after other calls, in which the processes that
// stand by are created.
const settling = 3 * time.Second

// atRest is what a server without requests holds of something.
func atRest(held func() int) int {
	most := 0
	for end := time.Now().Add(settling); time.Now().Before(end); time.Sleep(settling / 30) {
		most = max(most, held())
	}
	return most
}

// descriptors is the number of open descriptors of all processes of the server.
func descriptors(t *testing.T, s subject) int {
	t.Helper()
	sum := 0
	for _, process := range s.Processes() {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", process.Pid))
		if err != nil {
			continue // It has ended, or it is another user's.
		}
		sum += len(open)
	}
	return sum
}

// settled is checked for ours only: the peer closes an archive's descriptor when
// its garbage collector runs.
func settled(t *testing.T, s subject, before int) {
	t.Helper()
	if !s.isOurs() {
		return
	}
	err := wait.Until(goneWithin, "the server to close what the calls opened", func() error {
		if now := descriptors(t, s); now > before+leaked {
			return fmt.Errorf("expected about %d open descriptors, got %d", before, now)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
