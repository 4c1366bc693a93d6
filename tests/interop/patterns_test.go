package interop

import (
	"fmt"
	"slices"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"
)

// What a pattern may answer.
const (
	yes     = "yes"
	no      = "no"
	failure = "error"
)

// patternTree is an app with every kind of name, in a directory of its own so
// that `..` stays within the repository.
var patternTree = tree.Files{
	"g/Chart.yaml": "x", "g/values.yaml": "x", "g/a.yml": "x", "g/A.YAML": "x", "g/sub/Chart.yaml": "x",
	"g/sub/deep/deeper/x.json": "x", "g/.hid/h.yaml": "x", "g/.dot.yaml": "x", "g/real/r.yaml": "x",
	"g/we[i]rd.yaml": "x", "g/é.yaml": "x", "g/{lit}.yaml": "x", "g/q?.txt": "x",
	"g/lnk": "-> real", "g/dang.yaml": "-> nowhere", "g/cl.yaml": "-> Chart.yaml",
}

// patterns says what each answers as `fileName` and as `glob`: two languages
// with little in common but the star.
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
	{"[", failure, failure},
	{"*[", failure, yes},
	{`we\[i\]rd.yaml`, yes, failure},
	{`we\[i\]rd*`, yes, yes},
	{"we[i]rd*", no, no},
	{"é.*", yes, yes},
	{"q?.txt", yes, yes},
	{"*.txt", yes, yes},
	{".hid/*", yes, yes},
	{"**.yaml", yes, yes},
}

// patternsAtOnce bounds the number of peers, one process per pattern.
const patternsAtOnce = 12

func TestPatternsMeanWhatTheyMeanToArgoCD(t *testing.T) {
	type question struct {
		definition plugin.Definition
		label      string
		want       string
	}
	var questions []question
	for i, p := range patterns {
		questions = append(questions,
			question{discovering(fmt.Sprintf("f%d", i), fmt.Sprintf("{fileName: %q}", p.pattern)), "fileName " + p.pattern, p.fileName},
			question{discovering(fmt.Sprintf("g%d", i), fmt.Sprintf("{find: {glob: %q}}", p.pattern)), "glob " + p.pattern, p.glob})
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
