package interop

import (
	"fmt"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	"google.golang.org/grpc/codes"
)

// generating is the beginning of the text of a failed init, generate or split.
const generating = "error generating manifests: "

func TestAFailedCommandSaysWhatItSaid(t *testing.T) {
	cases := []struct{ name, spec, want string }{
		{"exit", `generate: {command: [sh, -c, "exit 3"]}`, "`sh -c \"exit 3\"` failed exit status 3"},
		{"stderr", `generate: {command: [sh, -c], args: ["echo manifest; echo ' bad ' >&2; exit 1"]}`, "`sh -c \"echo manifest; echo ' bad ' >&2; exit 1\"` failed exit status 1: bad"},
		// White space of Unicode is trimmed, and other bytes stay.
		{"stderr-bytes", `generate: {command: [sh, stderr]}`, "`sh stderr` failed exit status 1: \x1b[1mbad\x1b[m\r\n\x01\té"},
		{"false", `generate: {command: ["false"]}`, "`false` failed exit status 1"},
		{"init", `
init: {command: [sh, -c, "echo no >&2; exit 7"]}
generate: {command: [echo, "kind: Generated"]}`, "`sh -c \"echo no >&2; exit 7\"` failed exit status 7: no"},
		// Arguments with white space are quoted as in Go; others are unchanged.
		{"quoting", `generate: {command: [sh, -c, 'exit 3', 'a"b', 'c"d e', "tab\there", "new\nline", "", "back\\ slash", "é x"]}`,
			"`sh -c \"exit 3\" a\"b \"c\\\"d e\" \"tab\\there\" \"new\\nline\" \"\" \"back\\\\ slash\" \"é x\"` failed exit status 3"},
		{"killed", `generate: {command: [sh, -c, 'kill -9 $$']}`, "`sh -c \"kill -9 $$\"` failed signal: killed"},
		{"terminated", `generate: {command: [sh, -c, 'echo dying >&2; kill $$']}`, "`sh -c \"echo dying >&2; kill $$\"` failed signal: terminated: dying"},
	}
	definitions := make([]plugin.Definition, len(cases))
	for i, c := range cases {
		definitions[i] = plugin.Definition{Name: c.name, Spec: c.spec}
	}
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"stderr": `printf '\302\205 \033[1mbad\033[m\r\n\001\t\303\251\343\200\200\r\n' >&2; exit 1`})
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				_, err := s.generate(t, definitions[i], repo)
				refused(t, s, err, codes.Unknown, generating+c.want)
			})
		}
	}, definitions...)
}

func TestASignalThatEndsACommandIsNamedAsInGo(t *testing.T) {
	const script = "ulimit -c 0; kill -$(cat number) $$; sleep 300"
	// The others end no process, or stop it.
	ends := []syscall.Signal{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31, 34, 63, 64}
	d := plugin.Definition{Name: "ended", Spec: fmt.Sprintf("generate: {command: [sh, -c, %q]}", script)}
	onEach(t, func(t *testing.T, s subject) {
		for _, number := range ends {
			// The peer and its shell inherit what this process ignores, as with nohup.
			if signal.Ignored(number) {
				continue
			}
			_, err := s.generate(t, d, repositoryOf(t, tree.Files{"number": strconv.Itoa(int(number))}))
			refused(t, s, err, codes.Unknown, fmt.Sprintf("%s`sh -c %q` failed signal: %s", generating, script, number))
		}
	}, d)
}

func TestALongErrorOfManyLinesArrivesWhole(t *testing.T) {
	const lines = 400
	var stderr strings.Builder
	for i := range lines {
		fmt.Fprintf(&stderr, "line %03d: 100%% of \"this\" <must> arrive, é too\n", i)
	}
	if stderr.Len() < 8<<10 || stderr.Len() > 32<<10 {
		t.Fatalf("the text must be between 8 and 32 KiB, and has %d bytes", stderr.Len())
	}
	d := plugin.Definition{Name: "long", Spec: `generate: {command: [sh, -c, "cat stderr >&2; exit 1"]}`}
	onEach(t, func(t *testing.T, s subject) {
		_, err := s.generate(t, d, repositoryOf(t, tree.Files{"stderr": stderr.String()}))
		refused(t, s, err, codes.Unknown, generating+"`sh -c \"cat stderr >&2; exit 1\"` failed exit status 1: "+strings.TrimSpace(stderr.String()))
	}, d)
}

func TestAProgramThatCannotBeStartedIsNamed(t *testing.T) {
	cases := []struct{ name, command, want string }{
		{"absent", `[no-such-program, x]`, `exec: "no-such-program": executable file not found in $PATH`},
		{"absent-absolute", `[/no/such/program]`, `fork/exec /no/such/program: no such file or directory`},
		{"absent-relative", `[./absent.sh]`, `fork/exec ./absent.sh: no such file or directory`},
		{"empty", `[""]`, `exec: no command`},
		{"dot", `[.]`, `exec: ".": executable file not found in $PATH`},
		{"below-file", `[script.sh/x]`, `fork/exec script.sh/x: not a directory`},
		{"long", "[./" + strings.Repeat("n", 256) + "]", "fork/exec ./" + strings.Repeat("n", 256) + ": file name too long"},
		{"directory", `[./directory]`, `fork/exec ./directory: permission denied`},
		// The mode of the script was not kept.
		{"not-executable", `[./script.sh]`, `fork/exec ./script.sh: permission denied`},
	}
	definitions := make([]plugin.Definition, 0, len(cases)+1)
	for _, c := range cases {
		definitions = append(definitions, plugin.Definition{Name: c.name, Spec: "generate: {command: " + c.command + "}"})
	}
	formless := plugin.Definition{Name: "formless", Spec: "preserveFileMode: true\ngenerate: {command: [./formless]}"}
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"script.sh": "#!/bin/sh\n", "directory/x": "x"})
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				_, err := s.generate(t, definitions[i], repo)
				refused(t, s, err, codes.Unknown, generating+c.want)
			})
		}
		t.Run(formless.Name, func(t *testing.T) {
			archive := tree.Archive(tree.Entry{Name: "formless", Body: "no shebang", Mode: 0o755})
			_, err := s.raw(t, formless, client.Generate, client.Whole(".", archive)...)
			refused(t, s, err, codes.Unknown, generating+"fork/exec ./formless: exec format error")
		})
	}, append(definitions, formless)...)
}

func TestAnAppDirectoryThatIsNotOneIsNoticed(t *testing.T) {
	d := plugin.Shell("cat", "cat app.yaml")
	archive := tree.Archive(tree.Entry{Name: "file", Body: "x"}, link("circle", "circle"), link("dangling", "absent"))
	onEach(t, func(t *testing.T, s subject) {
		for path, cause := range map[string]string{
			"absent":                   "no such file or directory",
			"dangling":                 "no such file or directory",
			"\xff":                     "no such file or directory",
			"a\x00b":                   "invalid argument",
			"file":                     "not a directory",
			"circle":                   "too many levels of symbolic links",
			strings.Repeat("n", 256):   "file name too long",
			strings.Repeat("n/", 2100): "file name too long",
		} {
			_, err := s.raw(t, d, client.Generate, client.Whole(path, archive)...)
			refusedLike(t, s, err, codes.Unknown, generating+"fork/exec ANYsh: "+cause)
		}
	}, d)
}

func TestAnAppDirectoryThatInitRemovesIsNoticed(t *testing.T) {
	removing := func(name, init string) plugin.Definition {
		return plugin.Definition{Name: name, Spec: `
init: {command: [sh, -c, '` + init + `']}
generate: {command: [cat, app.yaml]}
`}
	}
	removed, replaced := removing("removed", `rm -r "$PWD"`), removing("replaced", `rm -r "$PWD"; echo x >"$PWD"`)
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"app.yaml": "kind: App\n", "deep/app/app.yaml": "kind: App\n"})
		for _, path := range []string{".", "deep/app"} {
			for cause, d := range map[string]plugin.Definition{"no such file or directory": removed, "not a directory": replaced} {
				_, err := s.generate(t, d, at(repo, path))
				refusedLike(t, s, err, codes.Unknown, generating+"fork/exec ANYcat: "+cause)
				if s.isOurs() && !strings.Contains(err.Error(), "a command such as init removed it") {
					t.Errorf("expected the cause, got %v", err)
				}
			}
		}
	}, removed, replaced)
}

func TestAPathOutsideTheRepositoryIsIllegal(t *testing.T) {
	d := announcing("cat", "{static: [{name: a}]}")
	archive := tree.Archive(tree.Entry{Name: "app.yaml", Body: "kind: App\n"})
	onEach(t, func(t *testing.T, s subject) {
		for _, path := range []string{"..", "/..", "../out-of-bounds", "a/../../b", "../../../../etc"} {
			for _, method := range []client.Method{client.Generate, client.Parameters} {
				_, err := s.raw(t, d, method, client.Whole(path, archive)...)
				refused(t, s, err, codes.Unknown, "illegal appPath: out of workDir bound")
			}
		}
		// An absolute path is below the root, and `..` is allowed inside.
		for _, path := range []string{"/", "", "//", "a/..", "app.yaml/..", "/a/../.", "./"} {
			if _, err := s.raw(t, d, client.Generate, client.Whole(path, archive)...); err != nil {
				t.Errorf("path %q: expected manifests, got the error %v", path, err)
			}
		}
	}, d)
}

func TestOutputThatIsNotYAMLIsAnError(t *testing.T) {
	cases := []struct{ name, out, want string }{
		{"brace", "invalid yaml: }\n", "error converting YAML to JSON: yaml: did not find expected node content"},
		{"log-line", "WARN something happened\na: 1\n", "error converting YAML to JSON: yaml: line 2: mapping values are not allowed in this context"},
		{"tab", "a:\n\tb: 1\n", "error converting YAML to JSON: yaml: line 2: found character that cannot start any token"},
		{"separator", "a: 1\n--- {b: 2}\n", "invalid Yaml document separator: {b: 2}"},
		{"second-document", "a: 1\n---\nb: [\n", "error converting YAML to JSON: yaml: line 1: did not find expected node content"},
		{"cut-json", `{"a": 1`, "unexpected EOF"},
		{"alias", "a: *x\n", "error converting YAML to JSON: yaml: unknown anchor 'x' referenced"},
		{"infinity", "a: .inf\n", "error converting YAML to JSON: json: unsupported value: +Inf"},
	}
	d := plugin.Shell("cat", "cat out")
	onEach(t, func(t *testing.T, s subject) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				_, err := s.generate(t, d, repositoryOf(t, tree.Files{"out": c.out}))
				refused(t, s, err, codes.Unknown, generating+"failed to unmarshal manifest: "+s.errorText(c.want))
			})
		}
	}, d)
}
