package interop

import (
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	"google.golang.org/grpc/codes"
)

func TestInitRunsBeforeGenerateInTheSameDirectory(t *testing.T) {
	d := plugin.Definition{Name: "init", Version: "v1.0", Spec: `
init:
  command: [sh, -c]
  args: ["echo 'kind: FromInit' > made-by-init.yaml; echo this output is not a manifest"]
generate:
  command: [cat]
  args: [made-by-init.yaml, app.yaml]
`}
	onEach(t, func(t *testing.T, s subject) {
		got, err := s.generate(t, d, repositoryOf(t, tree.Files{"app.yaml": "---\nkind: FromGit\n"}))
		rendered(t, got, err, `{"kind":"FromInit"}`, `{"kind":"FromGit"}`)
	}, d)
}

func TestAConfigMapComesOutAsSortedJSON(t *testing.T) {
	d := plugin.Shell("cat", "cat cm.yaml")
	onEach(t, func(t *testing.T, s subject) {
		got, err := s.generate(t, d, repositoryOf(t, tree.Files{
			// No final newline.
			"cm.yaml": "metadata:\n  name: my-map\nkind: ConfigMap\napiVersion: v1\ndata:\n  foo: bar",
		}))
		rendered(t, got, err, `{"apiVersion":"v1","data":{"foo":"bar"},"kind":"ConfigMap","metadata":{"name":"my-map"}}`)
	}, d)
}

func TestEmptyOutputIsZeroManifests(t *testing.T) {
	d := plugin.Shell("cat", "cat out")
	onEach(t, func(t *testing.T, s subject) {
		for name, out := range map[string]string{"nothing": "", "a newline": "\n", "comments": "# a\n---\n# b\n", "nulls": "null\n---\n~\n"} {
			t.Run(name, func(t *testing.T) {
				got, err := s.generate(t, d, repositoryOf(t, tree.Files{"out": out}))
				rendered(t, got, err)
			})
		}
	}, d)
}

func TestAnAppInASubDirectorySeesTheWholeRepository(t *testing.T) {
	d := plugin.Shell("cat", "cat app.yaml ../../shared.yaml")
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{
			"shared.yaml": "---\nkind: Shared\n", "apps/shop/app.yaml": "kind: Shop\n", "apps/blog/app.yaml": "kind: Blog\n",
		})
		got, err := s.generate(t, d, at(repo, "apps/shop"))
		rendered(t, got, err, `{"kind":"Shop"}`, `{"kind":"Shared"}`)
	}, d)
}

func TestAnAppDirectoryMayBeASymlink(t *testing.T) {
	d := plugin.Definition{Name: "linked", Spec: `
generate: {command: [cat, app.yaml]}
discover: {fileName: app.yaml}
parameters: {dynamic: {command: [cat, parameters.json]}}
`}
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{
			"real/app.yaml": "kind: Real\n", "real/parameters.json": `[{"name":"p"}]`, "link": "-> real", "deep/link": "-> ../real",
		})
		for _, directory := range []string{"link", "deep/link"} {
			got, err := s.generate(t, d, at(repo, directory))
			rendered(t, got, err, `{"kind":"Real"}`)
			matched(t, s, d, at(repo, directory), true)
			announced(t, s, d, at(repo, directory), "p")
		}
	}, d)
}

func TestGenerateWritesThroughSymlinksInTheApp(t *testing.T) {
	d := plugin.Shell("edit", "echo 'edited: true' >> app.yaml && cat app.yaml ../base/app.yaml")
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"base/app.yaml": "kind: Base\n", "overlay/app.yaml": "-> ../base/app.yaml"})
		got, err := s.generate(t, d, at(repo, "overlay"))
		// One document: the file was read twice, and the later of two equal keys counts.
		rendered(t, got, err, `{"edited":true,"kind":"Base"}`)
	}, d)
}

func TestFileModesAreKeptOnlyOnRequest(t *testing.T) {
	const modes = `for f in script.sh plain; do echo "$f: \"$(stat -c %a $f)\""; done`
	kept := plugin.Definition{Name: "kept", Spec: "preserveFileMode: true\n" + plugin.Shell("", modes).Spec}
	lost := plugin.Shell("lost", modes)
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"script.sh": "#!/bin/sh\necho 'kind: Script'\n", "plain": "x"})
		got, err := s.generate(t, kept, repo)
		rendered(t, got, err, `{"plain":"644","script.sh":"755"}`)
		got, err = s.generate(t, lost, repo)
		rendered(t, got, err, `{"plain":"644","script.sh":"644"}`)
	}, kept, lost)
}

func TestAScriptOfTheRepositoryRunsIfModesAreKept(t *testing.T) {
	const spec = "generate: {command: [./script.sh]}\n"
	kept := plugin.Definition{Name: "kept", Spec: "preserveFileMode: true\n" + spec}
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"bin/script.sh": "#!/bin/sh\necho 'kind: Script'\n"})
		got, err := s.generate(t, kept, at(repo, "bin"))
		rendered(t, got, err, `{"kind":"Script"}`)
	}, kept)
}

func TestEveryRequestStartsFromACleanTree(t *testing.T) {
	d := plugin.Shell("dirty", "test ! -e dirt || { echo 'kind: Dirty'; exit; }; echo 'kind: Clean'; touch dirt; rm app.yaml")
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"})
		c := s.dial(t, d)
		for range 3 {
			got, err := c.Generate(within(t, callWithin), repo)
			rendered(t, got, err, `{"kind":"Clean"}`)
		}
	}, d)
}

func TestExcludedFilesAreNotThere(t *testing.T) {
	d := plugin.Shell("list", `find . -type f | sort | sed 's/^/- /'`)
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"README.md": "x", "DUMMY.md": "x", "dummy/x": "x", "apps/a": "x", ".hidden": "x"})
		repo.Exclude = []string{"DUMMY.md", "dum*"}
		got, err := s.generate(t, d, repo)
		rendered(t, got, err, `["./.hidden","./README.md","./apps/a"]`)
	}, d)
}

func TestBytesThatAreNotUTF8ArriveAsTheyAre(t *testing.T) {
	d := plugin.Shell("bytes", `printf '{"env":"%s","own":"\377"}' "$VALUE"`)
	onEach(t, func(t *testing.T, s subject) {
		got, err := s.generate(t, d, with(repositoryOf(t, tree.Files{"x": "x"}), "VALUE=\xfe\xff"))
		rendered(t, got, err, "{\"env\":\"\xfe\xff\",\"own\":\"\xff\"}")
	}, d)
}

func TestStandardInputIsEmptyAndStandardErrorIsNoFailure(t *testing.T) {
	d := plugin.Shell("streams", `echo a warning >&2; echo "stdin: \"$(cat)\""`)
	onEach(t, func(t *testing.T, s subject) {
		got, err := s.generate(t, d, repositoryOf(t, tree.Files{"x": "x"}))
		rendered(t, got, err, `{"stdin":""}`)
	}, d)
}

func TestAnOutputOfSeveralMegabytesArrivesWhole(t *testing.T) {
	const documents = 2000
	d := plugin.Shell("big", `i=0; line=$(head -c 1000 /dev/zero | tr '\0' x); while [ $i -lt 2000 ]; do echo "number: $i"; echo "text: $line"; echo ---; i=$((i+1)); done`)
	onEach(t, func(t *testing.T, s subject) {
		got, err := s.generate(t, d, repositoryOf(t, tree.Files{"x": "x"}))
		if err != nil {
			t.Fatalf("expected %d manifests, got the error %v", documents, err)
		}
		last := `{"number":1999,"text":"` + strings.Repeat("x", 1000) + `"}`
		if len(got) != documents || got[documents-1] != last {
			t.Fatalf("expected %d manifests and the last one %.30q…, got %d and %.30q…", documents, last, len(got), got[len(got)-1])
		}
	}, d)
}

func TestTheEnvironmentOfTheRequestReachesEveryCommand(t *testing.T) {
	const show = `env | grep -c '^=' | sed 's/^/nameless: /'; echo "foo: \"$FOO\""; echo "twice: $TWICE"; echo "empty: \"${EMPTY-unset}${EMPTY+set}\""; echo "unset: \"${NEVER-unset}\""`
	d := plugin.Definition{Name: "env", Spec: `
init: {command: [sh, -c, "echo \"initFoo: '$FOO'\" > init.yaml"]}
generate:
  command: [sh, -c]
  args:
  - |
    cat init.yaml
    ` + show + `
discover: {find: {command: [sh, -c, 'printf "$FOO"']}}
parameters: {dynamic: {command: [sh, -c, 'printf "[{\"name\":\"%s\"}]" "$FOO"']}}
`}
	onEach(t, func(t *testing.T, s subject) {
		repo := with(repositoryOf(t, tree.Files{"x": "x"}), "FOO=a=b c", "EMPTY=", "=nameless", "without an equals sign", "TWICE=1", "TWICE=2")
		got, err := s.generate(t, d, repo)
		rendered(t, got, err, `{"empty":"set","foo":"a=b c","initFoo":"a=b c","nameless":0,"twice":2,"unset":"unset"}`)
		matched(t, s, d, repo, true)
		matched(t, s, d, with(repo, "FOO="), false)
		announced(t, s, d, repo, "a=b c")
	}, d)
}

func TestAnEnvironmentThatNoProgramCanHaveIsAnError(t *testing.T) {
	d := plugin.Shell("env", "true")
	archive := tree.Archive(file("x", "x"))
	onEach(t, func(t *testing.T, s subject) {
		for want, entry := range map[string]*plugins.EnvEntry{
			"exec: environment variable contains NUL": {Name: "NUL", Value: "a\x00b"},
			"fork/exec ANYsh: argument list too long": {Name: "LONG", Value: strings.Repeat("x", 128<<10)},
		} {
			_, err := s.raw(t, d, client.Generate, client.Whole(".", archive, entry)...)
			refusedLike(t, s, err, codes.Unknown, generating+want)
		}
	}, d)
}

func TestEnvironmentEntriesNeedNotBeWellFormed(t *testing.T) {
	d := plugin.Shell("env", `echo "foo: \"$FOO\""`)
	archive := tree.Archive(tree.Entry{Name: "x", Body: "x"})
	onEach(t, func(t *testing.T, s subject) {
		reply, err := s.raw(t, d, client.Generate, client.Whole(".", archive,
			&plugins.EnvEntry{}, &plugins.EnvEntry{Value: "nameless"}, &plugins.EnvEntry{Name: "NOT-A NAME", Value: "v"}, &plugins.EnvEntry{Name: "FOO", Value: "bar"})...)
		if err != nil {
			t.Fatalf("expected manifests, got the error %v", err)
		}
		rendered(t, reply.(*plugins.ManifestResponse).GetManifests(), nil, `{"foo":"bar"}`)
	}, d)
}
