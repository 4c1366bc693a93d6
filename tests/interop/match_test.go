package interop

import (
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	"google.golang.org/grpc/codes"
)

// matched checks the answer of a plugin that has discovery.
func matched(t *testing.T, s subject, d plugin.Definition, app client.App, want bool) {
	t.Helper()
	got, err := s.match(t, d, app)
	if err != nil {
		t.Fatalf("expected isSupported=%v, got the error %v", want, err)
	}
	if got.GetIsSupported() != want || !got.GetIsDiscoveryEnabled() {
		t.Fatalf("expected isSupported=%v isDiscoveryEnabled=true, got %v %v", want, got.GetIsSupported(), got.GetIsDiscoveryEnabled())
	}
}

// discovering is a plugin with the given text below `discover:`.
func discovering(name, discover string) plugin.Definition {
	return plugin.Definition{Name: name, Spec: "generate: {command: [cat, app.yaml]}\ndiscover: " + discover + "\n"}
}

func TestDiscoveryAnswersByFileNameGlobOrCommand(t *testing.T) {
	cases := []struct {
		name, discover string
		want           bool
	}{
		{"file", `{fileName: kustomization.yaml}`, true},
		{"file-absent", `{fileName: not_found.yaml}`, false},
		{"file-pattern", `{fileName: "./config/pl*.yaml"}`, true},
		{"glob", `{find: {glob: "**/*/plugin.yaml"}}`, true},
		{"glob-absent", `{find: {glob: "**/*/not_found.yaml"}}`, false},
		{"glob-top", `{find: {glob: "**/kustomization.yaml"}}`, true},
		{"command", `{find: {command: [echo, test]}}`, true},
		{"command-args", `{find: {command: [echo], args: [test]}}`, true},
		{"command-newline", `{find: {command: [echo]}}`, false},
		{"command-space", `{find: {command: [echo, " "]}}`, true},
		{"command-silent", `{find: {command: ["true"]}}`, false},
		{"command-env", `{find: {command: [sh, -c, 'echo -n $ENV_VAR']}}`, true},
		{"command-unset", `{find: {command: [sh, -c, 'printf "$UNSET_VAR"']}}`, false},
		{"command-find", `{find: {command: [find, ., -name, plugin.yaml]}}`, true},
		// Only the first configured rule is used.
		{"file-first", `{fileName: not_found.yaml, find: {glob: "**/*.yaml", command: [echo, claimed]}}`, false},
		{"glob-second", `{find: {glob: "**/not_found", command: [echo, claimed]}}`, false},
	}
	definitions := make([]plugin.Definition, len(cases))
	for i, c := range cases {
		definitions[i] = discovering(c.name, c.discover)
	}
	onEach(t, func(t *testing.T, s subject) {
		repo := with(repositoryOf(t, tree.Files{
			"kustomization.yaml": "resources: [cm.yaml]\n", "cm.yaml": "kind: ConfigMap\n", "config/plugin.yaml": "x",
		}), "ENV_VAR=1")
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) { matched(t, s, definitions[i], repo, c.want) })
		}
	}, definitions...)
}

func TestDiscoveryLooksOnlyIntoTheApp(t *testing.T) {
	definitions := []plugin.Definition{
		discovering("file", `{fileName: marker}`),
		discovering("glob", `{find: {glob: "**/marker"}}`),
		discovering("command", `{find: {command: [find, ., -name, marker]}}`),
		discovering("below", `{fileName: sub/marker}`),
	}
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"with/marker": "x", "without/other": "x", "above/sub/marker": "x"})
		for _, d := range definitions[:3] {
			matched(t, s, d, at(repo, "with"), true)
			matched(t, s, d, at(repo, "without"), false)
		}
		matched(t, s, definitions[3], at(repo, "above"), true)
		matched(t, s, definitions[3], at(repo, "above/sub"), false)
	}, definitions...)
}

func TestWithoutDiscoveryBothAnswersAreNo(t *testing.T) {
	d := plugin.Shell("named-only", "cat app.yaml")
	onEach(t, func(t *testing.T, s subject) {
		got, err := s.match(t, d, repositoryOf(t, tree.Files{"app.yaml": "x"}))
		if err != nil || got.GetIsSupported() || got.GetIsDiscoveryEnabled() {
			t.Fatalf("expected isSupported=false isDiscoveryEnabled=false, got %v, error %v", got, err)
		}
	}, d)
}

func TestDiscoveryErrorsAreErrors(t *testing.T) {
	cases := []struct{ name, discover, pattern string }{
		// A glob without a star is the name of a required file.
		{"glob-literal", `{find: {glob: does-not-exist}}`, `match repository error: error finding glob match for pattern "ANYdoes-not-exist": file does not exist`},
		{"command-fails", `{find: {command: [cat, "nil"]}}`, "match repository error: error running find command: `cat nil` failed exit status 1: cat: nil: No such file or directory"},
		{"command-says-yes-and-fails", `{find: {command: [sh, -c, "echo yes; exit 3"]}}`, "match repository error: error running find command: `sh -c \"echo yes; exit 3\"` failed exit status 3"},
		{"command-absent", `{find: {command: [no-such-program]}}`, `match repository error: error running find command: exec: "no-such-program": executable file not found in $PATH`},
	}
	definitions := make([]plugin.Definition, len(cases))
	for i, c := range cases {
		definitions[i] = discovering(c.name, c.discover)
	}
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"x": "x"})
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				_, err := s.match(t, definitions[i], repo)
				refusedLike(t, s, err, codes.Unknown, c.pattern)
			})
		}
	}, definitions...)
}

func TestMatchClampsAPathThatLeavesTheRepository(t *testing.T) {
	d := discovering("clamp", `{fileName: marker}`)
	archive := tree.Archive(tree.Entry{Name: "app/marker", Body: "x"})
	onEach(t, func(t *testing.T, s subject) {
		for path, want := range map[string]bool{"app": true, "../app": true, "../../x/../app": true, "../other": false, "absent": false} {
			reply, err := s.raw(t, d, client.Match, client.Whole(path, archive)...)
			if err != nil {
				t.Errorf("path %q: expected isSupported=%v, got the error %v", path, want, err)
			} else if got := reply.(*plugins.RepositoryResponse).GetIsSupported(); got != want {
				t.Errorf("path %q: expected isSupported=%v, got %v", path, want, got)
			}
		}
	}, d)
}

func TestADiscoveryCommandRunsInTheAppWhereverItsPathLeads(t *testing.T) {
	d := discovering("rooted", `{find: {command: [cat, marker]}}`)
	archive := tree.Archive(
		tree.Entry{Name: "real/app/marker", Body: "x"},
		tree.Entry{Name: "other/file", Body: "x"},
		link("link", "real/app"),
		link("other/up", "../real"),
	)
	onEach(t, func(t *testing.T, s subject) {
		for _, path := range []string{"real/app", "../real/app", "../../other/../real/app", "link", "../link", "other/up/app", "link/../app", "/real/app"} {
			reply, err := s.raw(t, d, client.Match, client.Whole(path, archive)...)
			if err != nil {
				t.Errorf("path %q: expected isSupported=true, got the error %v", path, err)
			} else if !reply.(*plugins.RepositoryResponse).GetIsSupported() {
				t.Errorf("path %q: expected isSupported=true, got false", path)
			}
		}
	}, d)
}
