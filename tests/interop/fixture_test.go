package interop

import (
	"encoding/json"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	"google.golang.org/grpc/codes"
)

// kustomized is a repository like those in argocd-cmp-server's own tests. The
// ConfigMap has no final newline.
var kustomized = tree.Files{
	"kustomization.yaml": "resources:\n- ./cm.yaml\n",
	"cm.yaml":            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: my-map\ndata:\n  foo: bar",
	"config/plugin.yaml": "kind: ConfigManagementPlugin\n",
}

// kustomizing is a plugin for it with all four commands. A script replaces
// kustomize, which need not be installed.
var kustomizing = plugin.Definition{Name: "kustomizing", Version: "v1.0", Spec: `
init: {command: [sh, -c], args: [test -f kustomization.yaml && touch initialised]}
generate: {command: [sh, -c], args: [test -f initialised && cat cm.yaml]}
discover: {find: {glob: "**/kustomization.yaml"}}
parameters:
  static: [{name: test-param, string: test-value}]
  dynamic:
    command: [sh, -c]
    args:
    - |
      test -n "$MUST_BE_SET" || exit 1
      echo "[{\"name\": \"dynamic-test-param\", \"string\": \"$MUST_BE_SET\"}]"
`}

func TestOnePluginAnswersEverythingAboutAKustomization(t *testing.T) {
	const (
		manifest   = `{"apiVersion":"v1","data":{"foo":"bar"},"kind":"ConfigMap","metadata":{"name":"my-map"}}`
		parameters = `[{"name":"dynamic-test-param","string":"yep"},{"name":"test-param","string":"test-value"}]`
	)
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, kustomized)
		got, err := s.generate(t, kustomizing, repo)
		rendered(t, got, err, manifest)
		matched(t, s, kustomizing, repo, true)
		matched(t, s, kustomizing, repositoryOf(t, tree.Files{"main.jsonnet": "{}"}), false)

		announced, err := s.parameters(t, kustomizing, with(repo, "MUST_BE_SET=yep"))
		if err != nil {
			t.Fatalf("expected %s, got the error %v", parameters, err)
		}
		if text, err := json.Marshal(announced); err != nil || string(text) != parameters {
			t.Fatalf("expected %s, got %s (%v)", parameters, text, err)
		}
		_, err = s.parameters(t, kustomizing, repo)
		refusedLike(t, s, err, codes.Unknown, "get parameters announcement error: error executing dynamic parameter output command: `ANY` failed exit status 1")
	}, kustomizing)
}

func TestACommandWithoutWordsIsNoCommand(t *testing.T) {
	const generate = "generate: {command: [cat, app.yaml]}\n"
	definitions := []plugin.Definition{
		{Name: "empty", Spec: generate + "init: {command: []}\ndiscover: {find: {command: []}}\nparameters: {static: [{name: a}], dynamic: {command: []}}\n"},
		{Name: "null", Spec: generate + "init: {command: }\ndiscover: {find: {command: }}\nparameters: {static: [{name: a}], dynamic: {command: }}\n"},
		{Name: "only-args", Spec: generate + "init: {args: [x]}\ndiscover: {find: {args: [x]}}\nparameters: {static: [{name: a}], dynamic: {args: [x]}}\n"},
	}
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"})
		for _, d := range definitions {
			t.Run(d.Name, func(t *testing.T) {
				got, err := s.generate(t, d, repo)
				rendered(t, got, err, `{"kind":"App"}`)
				announced(t, s, d, repo, "a")
				answer, err := s.match(t, d, repo)
				if err != nil || answer.GetIsSupported() || answer.GetIsDiscoveryEnabled() {
					t.Errorf("expected isSupported=false isDiscoveryEnabled=false, got %v, error %v", answer, err)
				}
			})
		}
	}, definitions...)
}

func TestDeploymentsAreSplitAtSeparators(t *testing.T) {
	const (
		one      = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: nginx\nspec:\n  replicas: 1\n"
		manifest = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"nginx"},"spec":{"replicas":1}}`
	)
	cases := []struct {
		name, out string
		want      []string
	}{
		{"one", one, []string{manifest}},
		{"two", one + "\n---\n" + one, []string{manifest, manifest}},
		{"blank lines before the first", "\n\n\n---\n" + one, []string{manifest}},
	}
	onEach(t, func(t *testing.T, s subject) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				got, err := s.generate(t, printing, repositoryOf(t, tree.Files{"out": c.out}))
				rendered(t, got, err, c.want...)
			})
		}
	}, printing)
}

func TestAScriptWithoutItsModeRunsThroughAShell(t *testing.T) {
	d := plugin.Definition{Name: "script", Spec: "generate: {command: [sh, generate.sh]}\n"}
	onEach(t, func(t *testing.T, s subject) {
		got, err := s.generate(t, d, repositoryOf(t, tree.Files{"generate.sh": "#!/bin/sh\necho 'kind: Script'\n"}))
		rendered(t, got, err, `{"kind":"Script"}`)
	}, d)
}

func TestAScriptOfTheRepositoryRunsFromAShellIfModesAreKept(t *testing.T) {
	// `discovery` is misspelt, so the plugin has no discovery.
	d := plugin.Definition{Name: "kept", Version: "v1.0", Spec: "preserveFileMode: true\ndiscovery: {find: {glob: '**/script.sh'}}\ngenerate: {command: [sh, -c, ./script.sh]}\n"}
	onEach(t, func(t *testing.T, s subject) {
		got, err := s.generate(t, d, repositoryOf(t, tree.Files{"script.sh": "#!/bin/sh\necho 'kind: Script'\n"}))
		rendered(t, got, err, `{"kind":"Script"}`)
	}, d)
}

func TestCredentialsForGitReachTheCommands(t *testing.T) {
	d := plugin.Definition{Name: "cmp-gitcreds", Spec: `
provideGitCreds: true
init: {command: [sh, -c, 'printf %s "$GIT_ASKPASS" > init']}
generate:
  command: [sh, -c]
  args:
  - |
    echo "seen: '$(cat init)|$GIT_SSH_COMMAND|${GIT_USERNAME-unset}'"
discover: {fileName: subdir/s*.yaml}
parameters: {dynamic: {command: [sh, -c, 'printf "[{\"name\":\"%s\"}]" "$GIT_ASKPASS"']}}
`}
	onEach(t, func(t *testing.T, s subject) {
		repo := with(repositoryOf(t, tree.Files{"subdir/some.yaml": ""}), "GIT_ASKPASS=argocd", "GIT_SSH_COMMAND=ssh -i /dev/shm/1 -o StrictHostKeyChecking=no")
		got, err := s.generate(t, d, repo)
		rendered(t, got, err, `{"seen":"argocd|ssh -i /dev/shm/1 -o StrictHostKeyChecking=no|unset"}`)
		matched(t, s, d, repo, true)
		matched(t, s, d, at(repo, "subdir"), false)
		announced(t, s, d, repo, "argocd")
	}, d)
}

func TestTheOrderOfTheEnvironmentIsKept(t *testing.T) {
	// Read from /proc, because a shell passes its variables on in another order.
	d := plugin.Definition{Name: "order", Spec: `
generate:
  command: [xargs, "-0", -a, /proc/self/environ, sh, -c]
  args: ['for entry; do case $entry in ORDER_*) echo "- $entry" ;; esac; done', sh]
`}
	onEach(t, func(t *testing.T, s subject) {
		app := with(repositoryOf(t, tree.Files{"x": "x"}), "ORDER_Z=", "ORDER_B=1", "ORDER_A=2", "ORDER_B=3", "ORDER_C=")
		got, err := s.generate(t, d, app)
		if s.isOurs() && err != nil && strings.Contains(err.Error(), "/proc/self/environ") {
			t.Skip("skipped: this isolation hides /proc from commands, so the order cannot be read")
		}
		rendered(t, got, err, `["ORDER_Z=","ORDER_A=2","ORDER_B=3","ORDER_C="]`)
	}, d)
}

func TestATreeArrivesWithoutWhatIsExcluded(t *testing.T) {
	files := tree.Files{
		"README.md": "text", "applicationset/latest/kustomization.yaml": "l", "applicationset/stable/kustomization.yaml": "s",
		"applicationset/readme-symlink": "-> ../README.md",
	}
	const (
		readme = `"./README.md 644 text",`
		app    = `"./applicationset/",`
		latest = `"./applicationset/latest/","./applicationset/latest/kustomization.yaml 644 l",`
		rest   = `"./applicationset/readme-symlink -\u003e ../README.md","./applicationset/stable/","./applicationset/stable/kustomization.yaml 644 s"`
	)
	cases := []struct {
		name    string
		exclude []string
		want    string
	}{
		{"nothing", nil, "[" + readme + app + latest + rest + "]"},
		// The link to the excluded file is kept and dangles.
		{"a file", []string{"README.md"}, "[" + app + latest + rest + "]"},
		{"a file and a directory", []string{"README.md", "applicationset/latest"}, "[" + app + rest + "]"},
	}
	onEach(t, func(t *testing.T, s subject) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				app := repositoryOf(t, files)
				app.Exclude = c.exclude
				got, err := s.generate(t, listing, app)
				rendered(t, got, err, c.want)
			})
		}
	}, listing)
}
