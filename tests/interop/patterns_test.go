package interop

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"

	"google.golang.org/grpc/codes"
)

// The possible answers of a pattern.
const (
	yes     = "yes"
	no      = "no"
	failure = "error"
	// badPattern is an error in every request to the peer. Ours refuses the pattern
	// when it reads the definition.
	badPattern = "invalid"
)

// patternTree is an app with every kind of name. It is in a directory of its own,
// so that `..` stays inside the repository.
var patternTree = tree.Files{
	"g/Chart.yaml": "x", "g/values.yaml": "x", "g/a.yml": "x", "g/A.YAML": "x", "g/sub/Chart.yaml": "x",
	"g/sub/deep/deeper/x.json": "x", "g/.hid/h.yaml": "x", "g/.dot.yaml": "x", "g/real/r.yaml": "x",
	"g/we[i]rd.yaml": "x", "g/é.yaml": "x", "g/{lit}.yaml": "x", "g/q?.txt": "x",
	"g/lnk": "-> real", "g/dang.yaml": "-> nowhere", "g/cl.yaml": "-> Chart.yaml",
}

// patterns are the answers of each pattern as `fileName` and as `glob`. The two
// languages have little more in common than the star.
var patterns = []struct{ pattern, fileName, glob string }{
	{"Chart.yaml", yes, yes},
	{"./Chart.yaml", yes, yes},
	{"nope.yaml", no, failure},
	{"*.yaml", yes, yes},
	{"*.json", no, no},
	{"**/*.yaml", yes, yes},
	{"**/*.json", no, yes},
	{"**/Chart.yaml", yes, yes},
	{"**", yes, yes},
	{"**/", yes, yes},
	{"sub/**", yes, yes},
	{"sub/**/*.json", no, yes},
	{"sub", yes, yes},
	{"sub/", yes, yes},
	{".", yes, yes},
	{"..", yes, yes},
	{"../g/Chart.yaml", yes, yes},
	{"../g/*.yml", yes, yes},
	{"{Chart,values}.yaml", no, yes},
	{"{*.yaml,*.yml}", no, no},
	{"*.{yaml,yml}", no, yes},
	{"chart.yaml", no, failure},
	{"CHART*", no, no},
	{"**/deep", yes, yes},
	{"sub/*/deeper", yes, yes},
	{"[^x]*.yml", yes, yes},
	{"[!x]*.yml", no, no},
	{"?.yml", yes, failure},
	{"[a-c].yml", yes, failure},
	{"[a-c]*.yml", yes, yes},
	{"lnk/*.yaml", yes, yes},
	{"lnk/**/*.yaml", no, yes},
	{"**/r.yaml", yes, yes},
	{"dang.yaml", yes, failure},
	{"d*.yaml", yes, yes},
	{"cl.yaml", yes, yes},
	{"nodir/*.yaml", no, failure},
	{"nodir/x", no, failure},
	{"[", badPattern, failure},
	{"*[", badPattern, yes},
	{`we\[i\]rd.yaml`, yes, failure},
	{`we\[i\]rd*`, yes, yes},
	{"we[i]rd*", no, no},
	{"é.*", yes, yes},
	{"q?.txt", yes, yes},
	{"*.txt", yes, yes},
	{".hid/*", yes, yes},
	{"**.yaml", yes, yes},
}

// patternsAtOnce is the largest number of peers, which are one process per pattern.
const patternsAtOnce = 12

func TestPatternsMeanWhatTheyMeanToArgoCD(t *testing.T) {
	type question struct {
		definition plugin.Definition
		label      string
		want       string
	}
	var questions, refused []question
	ask := func(q question) {
		if q.want == badPattern {
			refused = append(refused, q)
		} else {
			questions = append(questions, q)
		}
	}
	for i, p := range patterns {
		ask(question{discovering(fmt.Sprintf("f%d", i), fmt.Sprintf("{fileName: %q}", p.pattern)), "fileName " + p.pattern, p.fileName})
		ask(question{discovering(fmt.Sprintf("g%d", i), fmt.Sprintf("{find: {glob: %q}}", p.pattern)), "glob " + p.pattern, p.glob})
	}
	for part := range slices.Chunk(questions, patternsAtOnce) {
		definitions := make([]plugin.Definition, len(part))
		for i, q := range part {
			definitions[i] = q.definition
		}
		t.Run(part[0].definition.Name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s subject) {
				app := at(repositoryOf(t, patternTree), "g")
				for _, q := range part {
					if got := answer(t, s, q.definition, app); got != q.want {
						t.Errorf("%s: expected %s, got %s", q.label, q.want, got)
					}
				}
			}, definitions...)
		})
	}
	for _, q := range refused {
		t.Run(q.label, func(t *testing.T) {
			t.Run("peer", func(t *testing.T) {
				app := at(repositoryOf(t, patternTree), "g")
				s := peer(t, q.definition)
				_, err := s.match(t, q.definition, app)
				refusedLike(t, s, err, codes.Unknown, `match repository error: error finding filename match for pattern "ANY": syntax error in pattern`)
			})
			t.Run("ours", func(t *testing.T) { refusesToLoad(t, q.definition, "syntax error in pattern") })
		})
	}
}

// refusesToLoad checks that a definition is not served, that the log has the
// reason, and that another plugin is served.
func refusesToLoad(t *testing.T, d plugin.Definition, why string) {
	t.Helper()
	good := plugin.Shell("good", "true")
	server, err := sut.Launch(needsOurs(t), scratch, d, good)
	if err != nil {
		t.Fatal(err)
	}
	s := stopped(t, server)
	if err := sut.Ready(server, good); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(s.Socket(d)); !os.IsNotExist(err) {
		t.Errorf("expected no socket for %s, got %v", d.Name, err)
	}
	if log := s.Log(); !strings.Contains(log, why) || !strings.Contains(log, d.Name) {
		t.Errorf("expected the log to name %s and %q, it says:\n%s", d.Name, why, log)
	}
}

func answer(t *testing.T, s subject, d plugin.Definition, app client.App) string {
	t.Helper()
	got, err := s.match(t, d, app)
	switch {
	case err != nil:
		t.Logf("%s: %v", d.Name, err)
		return failure
	case got.GetIsSupported():
		return yes
	default:
		return no
	}
}
