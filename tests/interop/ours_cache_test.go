package interop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/wait"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	"google.golang.org/grpc/codes"
)

// logged is the supervisor's log line of a request.
type logged struct {
	Msg, Method, Outcome, Reason string
	UID                          *uint32
	Discover                     *float64 `json:"discover_ms"`
}

// matches waits for a number of log lines of discovery, which follow the answers.
func matches(t *testing.T, s subject, count int) []logged {
	t.Helper()
	var lines []logged
	err := wait.Until(callWithin, "the log lines of discovery", func() error {
		if lines = matchesSoFar(s); len(lines) < count {
			return fmt.Errorf("expected %d, got %+v", count, lines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func matchesSoFar(s subject) []logged {
	var all []logged
	for line := range strings.Lines(s.Log()) {
		var entry logged
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "request" && entry.Method == "match" {
			all = append(all, entry)
		}
	}
	return all
}

// supports asks if the plugin claims the application in an archive.
func supports(t *testing.T, c *client.Client, messages []client.Message) bool {
	t.Helper()
	reply, err := c.Raw(within(t, callWithin), client.Match, messages...)
	if err != nil {
		t.Fatalf("expected an answer, got the error %v", err)
	}
	return reply.(*plugins.RepositoryResponse).GetIsSupported()
}

func TestOursRemembersAnswersOfDiscovery(t *testing.T) {
	d := discovering("cached", `{fileName: app.yaml}`)
	s := ours(t, d)
	c := s.dial(t, d)
	claimed := tree.Archive(file("app.yaml", "1"), file("x/app.yaml", "1"), directory("y"))
	other := tree.Archive(file("other.yaml", "1"))

	t.Run("the second answer is the first, and was not looked for", func(t *testing.T) {
		for round := range 3 {
			if !supports(t, c, client.Whole(".", claimed)) {
				t.Errorf("round %d: expected yes", round)
			}
		}
		lines := matches(t, s, 3)
		for round, line := range lines {
			if looked := line.Discover != nil; looked != (round == 0) || line.Reason != lines[0].Reason || line.Reason == "" {
				t.Errorf("expected one reason, and a time of discovery in the first of three log lines only, got %+v", lines)
			}
		}
	})
	t.Run("who states the checksum of another's archive learns nothing", func(t *testing.T) {
		whole := client.Whole(".", claimed)
		for name, messages := range map[string][]client.Message{
			"another archive": append([]client.Message{whole[0]}, client.Chunks(other, 100)...),
			"most of it":      append([]client.Message{whole[0]}, client.Chunks(claimed[:len(claimed)-1], 100)...),
			"more than it":    append(whole, client.Chunk([]byte{0})),
			"nothing":         whole[:1],
		} {
			reply, err := c.Raw(within(t, callWithin), client.Match, messages...)
			if err == nil {
				t.Errorf("%s: expected an error, got the answer %v", name, reply)
				continue
			}
			refused(t, s, err, codes.Unknown, client.Match.StreamPrefix+"error receiving tgz file: file checksum validation error")
		}
		if supports(t, c, client.Whole(".", other)) || !supports(t, c, client.Whole(".", claimed)) {
			t.Error("expected both archives to have kept their answers")
		}
	})
	t.Run("another directory of the same archive has an answer of its own", func(t *testing.T) {
		for range 2 {
			for path, want := range map[string]bool{".": true, "x": true, "y": false} {
				if got := supports(t, c, client.Whole(path, claimed)); got != want {
					t.Errorf("in %s: expected %v, got %v", path, want, got)
				}
			}
		}
	})
	t.Run("a changed definition asks anew", func(t *testing.T) {
		for _, discover := range []string{`{fileName: other.yaml}`, `{find: {glob: "**/other.yaml"}}`, `{fileName: app.yaml}`} {
			want := strings.Contains(discover, "app.yaml")
			if err := s.Add(discovering("cached", discover)); err != nil {
				t.Fatal(err)
			}
			err := wait.Until(reloadWithin, discover+" to decide", func() error {
				// A connection keeps its first definition.
				renewed := s.dial(t, d)
				if forOne, forOther := supports(t, renewed, client.Whole(".", claimed)), supports(t, renewed, client.Whole(".", other)); forOne != want || forOther == want {
					return fmt.Errorf("expected %v and %v, got %v and %v", want, !want, forOne, forOther)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}
