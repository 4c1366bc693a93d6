package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"
)

// oddities are unusual definitions that Argo CD accepts. Each serves `odd` and
// renders `kind: Odd`.
var oddities = map[string]string{
	"json":                           `{"apiVersion":"x","kind":"ConfigManagementPlugin","metadata":{"name":"odd"},"spec":{"generate":{"command":["echo","kind: Odd"]}}}`,
	"no api version":                 "kind: ConfigManagementPlugin\nmetadata: {name: odd}\nspec: {generate: {command: [echo, 'kind: Odd']}}\n",
	"capitals":                       "KIND: ConfigManagementPlugin\nMetadata: {NAME: odd}\nSPEC: {Generate: {COMMAND: [echo], Args: ['kind: Odd']}}\n",
	"a byte order mark and comments": "\ufeff# a comment\n---\nkind: ConfigManagementPlugin\nmetadata: {name: odd}\nspec: {generate: {command: [echo, 'kind: Odd']}}\n",
	"the first of several documents": "kind: ConfigManagementPlugin\nmetadata: {name: odd}\nspec: {generate: {command: [echo, 'kind: Odd']}}\n---\nkind: [\n",
	"a repeated key":                 "kind: Other\nkind: ConfigManagementPlugin\nmetadata: {name: odd}\nspec: {generate: {command: [echo, 'kind: Odd']}}\n",
	"anchors and merges":             "x: &c {command: [echo, 'kind: Odd']}\nkind: ConfigManagementPlugin\nmetadata: {name: odd}\nspec: {generate: {<<: *c}}\n",
	"a key in two cases":             "kind: ConfigManagementPlugin\nmetadata: {name: odd}\nspec: {Generate: {command: [absent], args: ['kind: Odd']}, generate: {command: [echo]}}\n",
	"a list in two cases":            "kind: ConfigManagementPlugin\nmetadata: {name: odd}\nspec: {generate: {Command: [absent, 'kind: Odd', more], command: [echo, null]}}\n",
	"a list that null empties":       "kind: ConfigManagementPlugin\nmetadata: {name: odd}\nspec: {generate: {command: [echo, 'kind: Odd'], Args: [absent], args: null}}\n",
	"unknown keys":                   "kind: ConfigManagementPlugin\nmetadata: {name: odd, labels: {a: b}}\nstatus: {}\nspec: {lockRepo: true, generate: {command: [echo, 'kind: Odd'], timeout: 3}}\n",
	"a tab after a key":              "kind: ConfigManagementPlugin\nmetadata:\t\n  name: odd\nspec: {generate: {command: [echo, 'kind: Odd']}}\n",
	"an empty item":                  "kind: ConfigManagementPlugin\nmetadata: {name: odd}\nspec: {generate: {command: [printf, 'kind: Odd%s'], args: [null]}}\n",
	"booleans of YAML 1.1":           "kind: ConfigManagementPlugin\nmetadata: {name: odd}\nspec: {preserveFileMode: yes, provideGitCreds: off, generate: {command: [echo, 'kind: Odd']}}\n",
	"carriage returns":               "kind: ConfigManagementPlugin\r\nmetadata: {name: odd}\r\nspec: {generate: {command: [echo, 'kind: Odd']}}\r\n",
}

// invalid are definitions that no server accepts, with Argo CD's errors.
var invalid = map[string]struct{ text, says string }{
	"no name":           {"kind: ConfigManagementPlugin\nmetadata:\nspec: {generate: {command: [x]}}\n", "metadata.name should be non-empty"},
	"an empty name":     {"kind: ConfigManagementPlugin\nmetadata: {name: ''}\nspec: {generate: {command: [x]}}\n", "metadata.name should be non-empty"},
	"nothing":           {"# nothing\n", "metadata.name should be non-empty"},
	"another kind":      {"kind: invalid\nmetadata:\t\n  name: bad\nspec: {generate: {command: [x]}}\n", "kind should be ConfigManagementPlugin, found invalid"},
	"no generate":       {"kind: ConfigManagementPlugin\nmetadata: {name: bad}\n", "spec.generate command should be non-empty"},
	"only arguments":    {"kind: ConfigManagementPlugin\nmetadata: {name: bad}\nspec: {generate: {args: [x]}}\n", "spec.generate command should be non-empty"},
	"an empty command":  {"kind: ConfigManagementPlugin\nmetadata: {name: bad}\nspec: {generate: {command: []}}\n", "spec.generate command should be non-empty"},
	"a number":          {"kind: ConfigManagementPlugin\nmetadata: {name: bad}\nspec: {version: 1.0, generate: {command: [x]}}\n", "version"},
	"a boolean":         {"kind: ConfigManagementPlugin\nmetadata: {name: bad}\nspec: {generate: {command: [yes]}}\n", "command"},
	"not a list":        {"kind: ConfigManagementPlugin\nmetadata: {name: bad}\nspec: {generate: {command: sh -c x}}\n", "command"},
	"a quoted boolean":  {"kind: ConfigManagementPlugin\nmetadata: {name: bad}\nspec: {preserveFileMode: 'true', generate: {command: [x]}}\n", "preserveFileMode"},
	"a list":            {"- kind: ConfigManagementPlugin\n", ""},
	"broken YAML":       {"kind: ConfigManagementPlugin\nmetadata: {name: bad}\nspec: @x\n", "line 3"},
	"a label's number":  {"kind: ConfigManagementPlugin\nmetadata: {name: bad, labels: {a: 1}}\nspec: {generate: {command: [x]}}\n", ""},
	"a missing colon":   {"kind: ConfigManagementPlugin\nmetadata: {name: bad}\nspec\n", ""},
	"parameter numbers": {"kind: ConfigManagementPlugin\nmetadata: {name: bad}\nspec: {generate: {command: [x]}, parameters: {static: [{name: a, string: 1}]}}\n", ""},
}

// refusesWithin is the time limit for the peer to exit because of a bad definition.
const refusesWithin = time.Minute

func TestOddDefinitionsAreServed(t *testing.T) {
	odd := plugin.Definition{Name: "odd"}
	repo := repositoryOf(t, tree.Files{"x": "x"})
	for name, text := range oddities {
		t.Run(name, func(t *testing.T) {
			render := func(t *testing.T, s subject) {
				t.Helper()
				got, err := s.generate(t, odd, repo)
				rendered(t, got, err, `{"kind":"Odd"}`)
			}
			proven := t.Run("peer", func(t *testing.T) {
				s := peer(t)
				if _, err := s.Server.(*sut.Peer).AddText("odd", text); err != nil {
					t.Fatal(err)
				}
				if err := sut.Ready(s, odd); err != nil {
					t.Fatal(err)
				}
				render(t, s)
			})
			t.Run("ours", func(t *testing.T) {
				options := needsOurs(t)
				if !proven {
					t.Fatal("not judged: the peer itself does not pass this test")
				}
				options.Prepare = written(map[string]string{"odd.yaml": text})
				s, _ := launched(t, options)
				if err := sut.Ready(s, odd); err != nil {
					t.Fatal(err)
				}
				render(t, s)
			})
		})
	}
}

func TestInvalidDefinitionsAreRefusedWithAReason(t *testing.T) {
	proven := t.Run("peer", func(t *testing.T) {
		s := peer(t)
		for name, bad := range invalid {
			server, err := s.Server.(*sut.Peer).AddText(strings.ReplaceAll(name, " ", "-"), bad.text)
			if err != nil {
				t.Fatal(err)
			}
			code, err := server.Exit(refusesWithin)
			const fatal = 20
			if err != nil || code != fatal || !strings.Contains(server.Output(), bad.says) {
				t.Errorf("%s: expected exit code %d and %q, got %d, %v and %s", name, fatal, bad.says, code, err, server.Output())
			}
		}
	})
	t.Run("ours", func(t *testing.T) {
		options := needsOurs(t)
		if !proven {
			t.Fatal("not judged: the peer itself does not pass this test")
		}
		files := map[string]string{}
		for name, bad := range invalid {
			files[strings.ReplaceAll(name, " ", "-")+".yaml"] = bad.text
		}
		s := refusing(t, options, files)
		for name, bad := range invalid {
			file := strings.ReplaceAll(name, " ", "-") + ".yaml"
			if !toldAbout(s.Log(), file, bad.says) {
				t.Errorf("%s: expected a line of the log with %s and %q, got none", name, file, bad.says)
			}
		}
	})
}

// refusing starts ours with a valid definition and these files, and expects it to serve
// the valid one alone.
func refusing(t *testing.T, options sut.Options, files map[string]string) subject {
	t.Helper()
	options.Prepare = written(files)
	good := plugin.Shell("good", "true")
	s, _ := launched(t, options, good)
	if err := sut.Ready(s, good); err != nil {
		t.Fatal(err)
	}
	if names := sockets(t, s); len(names) != 1 {
		t.Errorf("expected the socket of good alone, got %q", names)
	}
	return s
}

// toldAbout is true if one line contains both texts.
func toldAbout(log string, texts ...string) bool {
	for line := range strings.Lines(log) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			return true
		}
	}
	return false
}

func TestAPeerWithoutADefinitionDoesNotStart(t *testing.T) {
	binary, err := peerBinary()
	if err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	if err := os.WriteFile(filepath.Join(empty, "plugin-bad.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	process, err := proc.Start(exec.Command(binary, "--config-dir-path", empty))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
	})
	if code, err := process.Exit(refusesWithin); err != nil || code == 0 || !strings.Contains(process.Output(), "plugin.yaml: no such file or directory") {
		t.Errorf("expected an exit code above 0 and a sentence about plugin.yaml, got %d, %v and %s", code, err, process.Output())
	}
}
