package interop

import (
	"archive/tar"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/protobuf/types/known/emptypb"
)

// differing is a plugin whose commands see something else than with the peer. It prints
// one word, which is `theirs` with the peer, and `ours` with ours in the tiers that
// `same` does not name.
type differing struct {
	name, init, generate string
	theirs, ours         string
	same                 []string
}

// Each is a row of docs/compatibility.md.
var commands = []differing{
	{"cgroup", "", `cat /proc/self/cgroup >/dev/null 2>&1 && echo open || echo closed`, "open", "closed", []string{"namespaces", "none"}},
	{"tmp", "", `f=/tmp/cmp-difference-$$; touch $f 2>/dev/null && rm $f && echo open || echo closed`, "open", "closed", []string{"namespaces", "none"}},
	{"shm", "", `f=/dev/shm/cmp-difference-$$; touch $f 2>/dev/null && rm $f && echo open || echo closed`, "open", "closed", []string{"namespaces", "none"}},
	{"path", "", `echo ${ARGOCD_APP_TARBALL_REL_PATH-unset}`, "unset", "deep/app", nil},
	{"root", "", `ls / >/dev/null 2>&1 && echo open || echo closed`, "open", "closed", []string{"none"}},
	{"terminal", "", ` (: <>/dev/ptmx) 2>/dev/null && echo open || echo closed`, "open", "closed", []string{"none"}},
	{"stack", "", `test $(ulimit -Hs) = 65536 && echo limited || echo usual`, "usual", "limited", nil},
	{"mode", "", `stat -c %a ../..`, "755", "700", nil},
	{"umask", "", `umask`, "0002", "0022", nil},
	{"nice", "", `test $(nice) -gt ` + niceOfTests() + ` && echo lower || echo usual`, "usual", "lower", nil},
	// A link to / leads out of the peer's copy of the repository.
	{"link", `cd .. && rm -r app && ln -s / app`, `test -e marker && echo repository || echo elsewhere`, "elsewhere", "repository", nil},
}

// niceOfTests is the nice value of this process, which the peer's commands have too.
func niceOfTests() string {
	// Linux returns 20 less the nice value.
	inverse, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		panic(err)
	}
	return strconv.Itoa(20 - inverse)
}

func (c differing) definition() plugin.Definition {
	d := plugin.Shell(c.name, `printf 'seen: "%s"' "$(`+c.generate+`)"`)
	if c.init != "" {
		d.Spec += "\ninit: {command: [sh, -c, '" + c.init + "']}\n"
	}
	return d
}

// sees checks what the command of each plugin prints.
func sees(t *testing.T, s subject, want func(differing) string) {
	t.Helper()
	repo := repositoryOf(t, tree.Files{"marker": "x", "deep/app/x": "x"})
	for _, c := range commands {
		got, err := s.generate(t, c.definition(), at(repo, "deep/app"))
		rendered(t, got, err, `{"seen":"`+want(c)+`"}`)
	}
}

func TestOursShowsCommandsOtherThingsAsDocumented(t *testing.T) {
	// Both servers inherit it.
	defer syscall.Umask(syscall.Umask(0o002))
	var definitions []plugin.Definition
	for _, c := range commands {
		definitions = append(definitions, c.definition())
	}
	sees(t, peer(t, definitions...), func(c differing) string { return c.theirs })
	for _, tier := range tiers {
		if chosen := os.Getenv(oursIsolation); chosen != "" && chosen != tier {
			continue
		}
		t.Run(tier, func(t *testing.T) {
			sees(t, shop{definitions: definitions}.confined(t, tier), func(c differing) string {
				for _, same := range c.same {
					if same == tier {
						return c.theirs
					}
				}
				return c.ours
			})
		})
	}
}

func TestOursDiscoversOtherwiseAsDocumented(t *testing.T) {
	above := discovering("above", `{fileName: `+strings.Repeat("../", 30)+`etc/passwd}`)
	literal := discovering("literal", `{fileName: "*.yaml"}`)
	command := discovering("command", `{find: {command: [ls]}}`)
	archive := tree.Archive(file("app/x", "x"), file("[a]/app.yaml", "x"), link("circle", "circle"))
	answer := func(t *testing.T, s subject, d plugin.Definition, path string, want bool) {
		t.Helper()
		got, err := s.raw(t, d, client.Match, client.Whole(path, archive)...)
		claimed, hasAnswer := got.(interface{ GetIsSupported() bool })
		if err != nil || !hasAnswer || claimed.GetIsSupported() != want {
			t.Errorf("%s in %s: expected %v, got %v, error %v", d.Name, path, want, got, err)
		}
	}
	theirs := peer(t, above, literal, command)
	answer(t, theirs, above, "app", true)
	answer(t, theirs, literal, "[a]", false)
	s := ours(t, above, literal, command)
	answer(t, s, above, "app", false)
	answer(t, s, literal, "[a]", true)

	// The peer searches the directory where it was started.
	for path, cause := range map[string]string{"circle": "too many levels of symbolic links", "a\x00b": "invalid argument"} {
		for _, d := range []plugin.Definition{literal, command} {
			if _, err := theirs.raw(t, d, client.Match, client.Whole(path, archive)...); err != nil {
				t.Errorf("expected an answer of the peer, got %v", err)
			}
		}
		_, err := s.raw(t, literal, client.Match, client.Whole(path, archive)...)
		refusedLike(t, s, err, codes.Unknown, "match repository error: ANY: "+cause)
		_, err = s.raw(t, command, client.Match, client.Whole(path, archive)...)
		refusedLike(t, s, err, codes.Unknown, "match repository error: error running find command: fork/exec ANYls: ANY")
	}

	for _, d := range []plugin.Definition{literal, command} {
		answer(t, theirs, d, "absent/../[a]", d.Name == "command")
	}
	answer(t, s, literal, "absent/../[a]", true)
	_, err := s.raw(t, command, client.Match, client.Whole("absent/../[a]", archive)...)
	refusedLike(t, s, err, codes.Unknown, "match repository error: error running find command: fork/exec ANYls: no such file or directory")
}

// collisions are mappings with two keys that are one in JSON. The last one has the value b.
var collisions = []string{"1: a\n\"1\": b\n", "\"1\": a\n1: b\n", "true: a\n\"true\": b\n", "1.0: a\n1: b\n", "\".inf\": a\n.inf: b\n", "x: {1: a, \"1\": b}\n"}

func TestOursTakesTheLastOfEqualKeysAsDocumented(t *testing.T) {
	theirs, s := peer(t, printing), ours(t, printing)
	for _, output := range collisions {
		repo := repositoryOf(t, tree.Files{"out": output})
		got, err := theirs.generate(t, printing, repo)
		if err != nil || len(got) != 1 || !strings.Contains(got[0], `:"a"}`) && !strings.Contains(got[0], `:"b"}`) {
			t.Errorf("%q: expected one of the values of the peer, got %v, error %v", output, got, err)
		}
		for range 5 {
			got, err := s.generate(t, printing, repo)
			if err != nil || len(got) != 1 || !strings.Contains(got[0], `:"b"}`) {
				t.Errorf("%q: expected the last value, got %v, error %v", output, got, err)
			}
		}
	}
}

func TestOursKeepsALastLineOfWholeBlocksAsDocumented(t *testing.T) {
	theirs, s := peer(t, printing), ours(t, printing)
	for _, blocks := range []int{1, 3} {
		for _, surplus := range []int{-1, 0, 1} {
			value := strings.Repeat("x", 4096*blocks+surplus-len("b: "))
			repo := repositoryOf(t, tree.Files{"out": "a: 1\nb: " + value})
			whole := `{"a":1,"b":"` + value + `"}`
			wanted := whole
			if surplus == 0 {
				wanted = `{"a":1}`
			}
			got, err := theirs.generate(t, printing, repo)
			rendered(t, got, err, wanted)
			got, err = s.generate(t, printing, repo)
			rendered(t, got, err, whole)
		}
	}
}

func TestOursLimitsOutputsAsDocumented(t *testing.T) {
	const limit = "limits: {output: 1Ki}\n"
	definitions := []plugin.Definition{
		{Name: "init", Spec: limit + "init: {command: [cat, out]}\ngenerate: {command: [echo, 'kind: A']}\n"},
		{Name: "generate", Spec: limit + "generate: {command: [cat, out]}\n"},
	}
	repo := repositoryOf(t, tree.Files{"out": "kind: A\n#" + strings.Repeat("x", 2048)})
	theirs, s := peer(t, definitions...), ours(t, definitions...)
	for _, d := range definitions {
		got, err := theirs.generate(t, d, repo)
		rendered(t, got, err, `{"kind":"A"}`)
		_, err = s.generate(t, d, repo)
		refusedLike(t, s, err, codes.Unknown, "error generating manifests: `cat out` ANYwrote more than 1Ki ")
	}
}

func TestOursUnpacksBelowAClosedDirectoryAsDocumented(t *testing.T) {
	archive := tree.Gzip(tree.Join(raw(tree.Block{Name: "d", Type: tar.TypeDir, Mode: "555"}, ""), raw(tree.Block{Name: "d/f", Mode: "644"}, "1"), tree.End()))
	theirs, s := peer(t, listing), ours(t, listing)
	_, err := theirs.raw(t, listing, client.Generate, client.Whole(".", archive)...)
	refusedLike(t, theirs, err, codes.Unknown, `ANYerror creating file "d/f": openat d/f: permission denied`)
	reply, err := s.raw(t, listing, client.Generate, client.Whole(".", archive)...)
	got, _ := reply.(*plugins.ManifestResponse)
	rendered(t, got.GetManifests(), err, `["./d/","./d/f 644 1"]`)
}

func TestOursRefusesCompressedMessagesAsDocumented(t *testing.T) {
	check := func(s subject) error {
		_, err := s.dial(t, listing).CheckPluginConfiguration(within(t, callWithin), &emptypb.Empty{}, grpc.UseCompressor(gzip.Name))
		return err
	}
	if err := check(peer(t, listing)); err != nil {
		t.Errorf("expected the peer's answer, got %v", err)
	}
	s := ours(t, listing)
	refused(t, s, check(s), codes.Unimplemented, "gzip")
}

// onlyTheirs are definitions that the peer serves and ours refuses when it loads them,
// with words of the reason.
var onlyTheirs = map[string]struct{ spec, says string }{
	"pattern-of-file": {"discover: {fileName: '['}\n", "`fileName` never matches"},
	"pattern-of-glob": {"discover: {find: {glob: '*/[z-a]*'}}\n", "`find.glob` never matches"},
	"variable":        {"discover: {find: {glob: '$HOME/*'}}\n", "names an environment variable"},
	"property":        {"discover: {find: {glob: 'x/[\\p{Greek}]*'}}\n", "Unicode properties"},
	"long":            {"discover: {fileName: '" + strings.Repeat("x", 4097) + "'}\n", "4096"},
	"nul":             {"parameters: {dynamic: {command: [echo, \"\\0\"]}}\n", "has a NUL byte"},
	"sandbox":         {"sandbox: {raed: [/x]}\n", "spec.sandbox.raed"},
	"workspace":       {"workspace: {inclde: [x]}\n", "spec.workspace.inclde"},
	"limits":          {"limits: {memry: 1Mi}\n", "spec.limits.memry"},
	"section":         {"limit: {memory: 1Mi}\n", "spec.limit"},
}

func TestOursRefusesDefinitionsAsDocumented(t *testing.T) {
	texts := map[string]string{}
	var definitions []plugin.Definition
	for name, refused := range onlyTheirs {
		d := plugin.Definition{Name: name, Spec: "generate: {command: [echo, 'kind: A']}\n" + refused.spec}
		definitions = append(definitions, d)
		texts[name+".yaml"] = d.YAML()
	}
	repo := repositoryOf(t, tree.Files{"x": "x"})
	theirs := peer(t, definitions...)
	for _, d := range definitions {
		got, err := theirs.generate(t, d, repo)
		rendered(t, got, err, `{"kind":"A"}`)
	}
	s := refusing(t, needsOurs(t), texts)
	for name, refused := range onlyTheirs {
		if !toldAbout(s.Log(), name+".yaml", refused.says) {
			t.Errorf("%s: expected a line of the log with %q", name, refused.says)
		}
	}
}

// announcements are outputs of commands for dynamic parameters that the peer accepts.
var announcements = map[string]string{
	"bytes that are not UTF-8": "[{\"name\":\"\xff\"}]",
	"half of a surrogate pair": `[{"name":"\ud800"}]`,
	"a number beyond a double": `[{"name":"a","more":1e999}]`,
	"nesting of 128 levels":    `[{"name":"a","more":` + strings.Repeat("[", 126) + strings.Repeat("]", 126) + `}]`,
}

func TestOursRefusesAnnouncementsAsDocumented(t *testing.T) {
	d := announcing("dynamic", `{dynamic: {command: [cat, output]}}`)
	theirs, s := peer(t, d), ours(t, d)
	for name, output := range announcements {
		repo := repositoryOf(t, tree.Files{"output": output})
		if got, err := theirs.parameters(t, d, repo); err != nil || len(got) != 1 {
			t.Errorf("%s: expected one parameter of the peer, got %v, error %v", name, got, err)
		}
		_, err := s.parameters(t, d, repo)
		refused(t, s, err, codes.Unknown, "error unmarshaling dynamic parameter output")
	}
}

func TestOursReadsRepeatedKeysAsDocumented(t *testing.T) {
	d := announcing("dynamic", `{dynamic: {command: [cat, output]}}`)
	repo := repositoryOf(t, tree.Files{"output": `[{"name":"a","name":null}, {"Name":"b","NAME":"c"}, {"name":"d","name":"e"}]`})
	announced(t, peer(t, d), d, repo, "a", "c", "e")
	announced(t, ours(t, d), d, repo, "", "b", "e")
}
