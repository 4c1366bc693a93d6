package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	"google.golang.org/grpc/status"
)

// printing renders the file `out` unchanged.
var printing = plugin.Shell("printing", "cat out")

// outputs are outputs of generate on which YAML engines and splitters differ.
var outputs = []string{
	// Framing.
	"a: 1\n---\nb: 2\n", "---\n---\na: 1\n---\n\n---\nb: 2\n---\n", "a: 1\n--- # Source: x\nb: 2\n", "a: 1\n ---\nb: 2\n",
	"a: |\n  x\n  ---\n  y\n", "a: 1\n...\nb: 2\n", "a: 1\r\nb: x\r\n---\r\nc: 2\r\n", "\ufeffa: 1\n", "a: 1\n----\nb: 2\n",
	"# hello\n---\na: 1\n", "INFO: starting\n---\na: 1\n", "a: 1", "a: |+\n  x\n\n\n",
	// JSON passes through unchanged; a stream that only resembles JSON does not.
	"{\"b\": 1, \"a\": 2}\n", "{\n  \"b\": 1,\n  \"a\": [ 1, 2 ]\n}\n", `{"a":1}{"b":2}`, "{\"a\":1}\n---\n{\"b\":2}\n", "{\"a\":1}\n{\"b\":2}\n---\n{\"c\":3}\n",
	"{a: 1}\n", "{\"a\":1,}\n", "{\"a\":1}\nnull\n{\"b\":2}", "{\"a\":1}\n# end\n", `{"a":"<b>&"}`, `{"a":123456789012345678901234567890,"b":1.0,"c":1E3}`,
	"[{\"a\":1},{\"b\":2}]\n", "[1]\n[2]\n", `{"a":"\ud83d\ude00"}`, `{"a":1}---`, "# c\n{\"b\": 2, \"a\": 1}\n",
	// Scalars of YAML 1.1.
	"a: 0644\nb: 0o644\nc: 08\nd: 0x1F\ne: 0b101\nf: 1_000\ng: _1\n", "a: yes\nb: No\nc: on\nd: OFF\ne: y\nf: tRue\n", "yes: 1\nno: 2\n", "y: 1\nn: 2\n",
	"a: ~\nb: null\nc:\nd: \"null\"\n", "a: 1.0\nb: 1e3\nc: 1e21\nd: 1e-7\ne: .5\nf: 12e3456\ng: 1e400\nh: -0.0\n", "a: 9223372036854775808\nb: 18446744073709551616\n",
	"a: 1:30\nb: 22:22\nc: 8080:80\n", "a: 2001-12-14\nb: 2001-12-14T21:59:43.10Z\n", "a: .nan\n", "a: 1Gi\nb: 100m\nc: 1.2.3\n",
	"a: !!str 123\nb: !!binary aGVsbG8=\nc: !foo bar\nd: !!float 3\n", "a: !!int x\n", "a: \"<b>&'\\\"</b>\"\n", "a: \"\U0001F600\"\nb: é\n", "a: \"\\/\"\n",
	"1: a\n0x10: b\n1.5: c\n", "~: 1\n", "[a, b]: 1\n", "z: 1\na: 2\nM: 3\né: 4\n\"10\": 5\n\"9\": 6\n",
	// Anchors and merges.
	"base: &b {p: 1, q: 2}\nc:\n  <<: *b\n  q: 3\n", "base: &b {p: 1, q: 2}\nc:\n  q: 3\n  <<: *b\n", "a: &a {p: 1}\nb: &b {p: 2, q: 2}\nc:\n  <<: [*a, *b]\n", "a: &x 1\n---\nb: *x\n", "a: 1\na: 2\n",
	// Scanner.
	"a:\t1\n", "a: 1\n\t\nb: 2\n", "a: x\x01y\n", "a: b: c\n", "a: @x\n", "a: 1#x\nb: \"x\"#y\n", " a: 1\nb: 2\n", "a: >\n  x\n  y\n\n  z\n", "hello world\n", "- a: 1\n- b: 2\n", "{}\n", "42\n",
	"apiVersion: v1\nkind: List\nitems:\n- kind: A\n- kind: B\n",
	// Argo CD reads 512 bytes at a time: bytes behind the first document that are not UTF-8 are
	// refused only if they are read together with it.
	"a: 1\n---\nb: \xff\n", "a: 1\n...\nb: \xff\n", "a: 1\n...\n# " + strings.Repeat("x", 450) + "\xff\n", "a: 1\n...\n# " + strings.Repeat("x", 520) + "\xff\n",
}

// outcome is a whole answer in a comparable form.
func outcome(manifests []string, err error) string {
	if err != nil {
		return fmt.Sprintf("error %v: %s", status.Code(err), status.Convert(err).Message())
	}
	return fmt.Sprintf("%d manifests: %q", len(manifests), manifests)
}

func TestOutputsBecomeTheSameManifestsToTheByte(t *testing.T) {
	expected := make([]string, len(outputs))
	expectedManifests := make([][]string, len(outputs))
	render := func(t *testing.T, s subject) []string {
		t.Helper()
		c := s.dial(t, printing)
		answers := make([]string, len(outputs))
		for i, out := range outputs {
			manifests, err := c.Generate(within(t, callWithin), repositoryOf(t, tree.Files{"out": out}))
			if !s.isOurs() {
				expectedManifests[i] = manifests
			} else if err == nil && slices.EqualFunc(manifests, expectedManifests[i], s.sameManifest) {
				manifests = expectedManifests[i]
			}
			answers[i] = outcome(manifests, err)
		}
		return answers
	}
	t.Run("peer", func(t *testing.T) {
		expected = render(t, peer(t, printing))
		if !strings.HasPrefix(expected[0], `2 manifests: ["{\"a\":1}" "{\"b\":2}"]`) {
			t.Fatalf("expected the peer to split two documents, got %s", expected[0])
		}
	})
	t.Run("ours", func(t *testing.T) {
		needsOurs(t)
		if expected[0] == "" {
			t.Skip("skipped: the peer's answers are missing, so nothing can be compared: run the whole test")
		}
		server := ours(t, printing)
		for i, got := range render(t, server) {
			if want := server.errorText(expected[i]); !sameOutcome(got, want) {
				t.Errorf("output %q:\nexpected %s\ngot      %s", outputs[i], want, got)
			}
		}
	})
}

// misread are JSON spellings that Argo CD passes on and then misreads or refuses,
// because it reads manifests as YAML.
var misread = regexp.MustCompile(`\\/|\\u[dD][89abAB]|\x7f`)

// sameManifest demands the same bytes. Ours may differ only for spellings that
// the repo-server would misread; then the values must be equal.
func (s subject) sameManifest(got, want string) bool {
	if got == want || !s.isOurs() || !misread.MatchString(want) {
		return got == want
	}
	var a, b any
	return json.Unmarshal([]byte(got), &a) == nil && json.Unmarshal([]byte(want), &b) == nil && reflect.DeepEqual(a, b)
}

// quotes are the parts of Argo CD's errors that repeat the output, each between its words.
var quotes = []*regexp.Regexp{
	regexp.MustCompile(`(?s)(unknown anchor ').+(' referenced)`),
	regexp.MustCompile(`(?s)(anchor ').+(' value contains itself)`),
	regexp.MustCompile("(?s)(cannot decode \\S+ `).+(` as a )"),
	regexp.MustCompile(`(?s)(invalid map key: ).+()`),
	regexp.MustCompile(`(?s)(unsupported map key of type: \S+, ).+()`),
	regexp.MustCompile(`(?s)(invalid Yaml document separator: ).+()`),
}

// errorText is Argo CD's error as this server words it. Words of the output may be
// secrets, so ours does not repeat them.
func (s subject) errorText(text string) string {
	if s.isOurs() {
		for _, quote := range quotes {
			text = quote.ReplaceAllString(text, "$1…$2")
		}
	}
	return text
}

// sameOutcome allows ours to add to the peer's error text.
func sameOutcome(got, want string) bool {
	if code, text, isError := strings.Cut(want, ": "); isError && strings.HasPrefix(want, "error ") {
		return strings.HasPrefix(got, code+": ") && strings.Contains(got, text)
	}
	return got == want
}

// corpusPath is the path of an optional larger set of recorded outputs outside
// the repository, with one JSON object per line.
const corpusPath = "../../../shared/data/yaml/output.jsonl"

// recorded is one line of the corpus.
type recorded struct {
	Name             string   `json:"name"`
	Stdout           string   `json:"stdout"`
	Manifests        []string `json:"manifests"`
	Error            string   `json:"error"`
	Nondeterministic bool     `json:"nondeterministic"`
}

func TestRecordedOutputsBecomeTheRecordedManifests(t *testing.T) {
	corpus := readCorpus(t)
	onEach(t, func(t *testing.T, s subject) {
		c := s.dial(t, printing)
		for _, this := range corpus {
			got, err := c.Generate(within(t, callWithin), repositoryOf(t, tree.Files{"out": this.Stdout}))
			want := s.errorText(this.Error)
			failed := err != nil && strings.Contains(err.Error(), want)
			switch {
			case want != "" && !failed:
				t.Errorf("%s: output %.200q:\nexpected the error %s\ngot %s", this.Name, this.Stdout, want, outcome(got, err))
			case this.Error == "" && (err != nil || !slices.EqualFunc(got, this.Manifests, s.sameManifest)):
				t.Errorf("%s: output %.200q:\nexpected %q\ngot %s", this.Name, this.Stdout, this.Manifests, outcome(got, err))
			}
		}
	}, printing)
}

func readCorpus(t *testing.T) []recorded {
	t.Helper()
	lines, err := os.Open(filepath.FromSlash(corpusPath))
	if err != nil {
		t.Skipf("skipped: the recorded outputs are missing: %v", err)
	}
	defer func() { _ = lines.Close() }()
	const longestLine = 64 << 20
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, longestLine)
	var corpus []recorded
	for scanner.Scan() {
		var this recorded
		if err := json.Unmarshal(scanner.Bytes(), &this); err != nil {
			t.Fatalf("line %d of the recorded outputs: %v", len(corpus)+1, err)
		}
		if !this.Nondeterministic {
			corpus = append(corpus, this)
		}
	}
	if scanner.Err() != nil || len(corpus) == 0 {
		t.Fatalf("expected recorded outputs, got %d (%v)", len(corpus), scanner.Err())
	}
	return corpus
}
