package interop

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/wait"
)

// launched starts cmp-supervisor and does not wait.
func launched(t *testing.T, options sut.Options, definitions ...plugin.Definition) (subject, *sut.Ours) {
	t.Helper()
	server, err := sut.Launch(options, scratch, definitions...)
	if err != nil {
		t.Fatal(err)
	}
	return stopped(t, server), server
}

func TestOursShowsASocketOnlyWhenItAnswers(t *testing.T) {
	definitions := []plugin.Definition{plugin.Shell("a", "true"), plugin.Shell("b", "true"), plugin.Shell("c", "true")}
	for range 3 {
		start := time.Now()
		s, server := launched(t, needsOurs(t), definitions...)
		answered := map[string]bool{}
		// Without a pause, to hit the moment between bind and listen.
		for len(answered) < len(definitions) {
			if time.Since(start) > sut.ReadyWithin || server.HasEnded() {
				t.Fatalf("expected %d sockets within %s, got %v; it wrote: %s", len(definitions), sut.ReadyWithin, answered, s.Log())
			}
			for _, name := range sockets(t, s) {
				if answered[name] {
					continue
				}
				if err := sut.Check(filepath.Join(s.Folders().Sockets, name), callWithin); err != nil {
					t.Fatalf("%s was there before it answered: %v", name, err)
				}
				answered[name] = true
			}
		}
		t.Logf("from start to the last first answer: %s", time.Since(start).Round(time.Millisecond))
		for _, d := range definitions {
			if !answered[d.Socket()] {
				t.Errorf("expected a socket %s, got %v", d.Socket(), answered)
			}
		}
	}
}

// sockets lists the files that the repo-server would take for plugins.
func sockets(t *testing.T, s subject) []string {
	t.Helper()
	entries, err := os.ReadDir(s.Folders().Sockets)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Type() == fs.ModeSocket {
			names = append(names, entry.Name())
		}
	}
	return names
}

func TestOursOpensItsSocketsToArgoCDAlone(t *testing.T) {
	needsOurs(t)
	if os.Geteuid() != 0 {
		lacks(t, "needs root, because otherwise all files have one owner")
	}
	const argocd = 999
	d := plugin.Shell("cat", "true")
	s := ours(t, d)
	info, err := os.Stat(s.Socket(d))
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if info.Mode().Perm() != 0o660 || owner != argocd {
		t.Errorf("expected mode 0660 and owner %d, got %v and %d", argocd, info.Mode().Perm(), owner)
	}
}

func TestOursServesTheGoodBesideTheBroken(t *testing.T) {
	good := plugin.Shell("good", "echo 'kind: Good'")
	twin := plugin.Shell("twin", "echo 'kind: Twin'")
	long := plugin.Shell(strings.Repeat("long", 30), "true")
	options := needsOurs(t)
	options.Prepare = written(map[string]string{
		"broken.yaml":  "kind: [\n",
		"other.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
		"first.yaml":   twin.YAML(),
		"second.yaml":  twin.YAML(),
		"long.yaml":    long.YAML(),
		"not-yaml.txt": "hello",
	})
	server, err := sut.StartOurs(options, scratch, good, twin)
	if err != nil {
		t.Fatal(err)
	}
	s := stopped(t, server)
	repo := repositoryOf(t, tree.Files{"x": "x"})
	got, err := s.generate(t, good, repo)
	rendered(t, got, err, `{"kind":"Good"}`)
	got, err = s.generate(t, twin, repo)
	rendered(t, got, err, `{"kind":"Twin"}`)
	if names := sockets(t, s); len(names) != 2 {
		t.Errorf("expected the sockets of good and twin, got %q", names)
	}
	for _, culprit := range []string{"broken.yaml", "other.yaml", "second.yaml", long.Name} {
		if !strings.Contains(s.Log(), culprit) {
			t.Errorf("expected the log to name %s, it says: %s", culprit, s.Log())
		}
	}
}

// written writes files to the plugins directory.
func written(contents map[string]string) func(sut.Folders) error {
	return func(f sut.Folders) error {
		for name, content := range contents {
			if err := os.WriteFile(filepath.Join(f.Plugins, name), []byte(content), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestOursSaysWhyItCannotStart(t *testing.T) {
	const ends = time.Minute
	needsOurs(t)
	cases := []struct {
		name    string
		prepare func(sut.Folders) error
		named   func(sut.Folders) string
	}{
		{"no plugins directory", func(f sut.Folders) error { return os.Remove(f.Plugins) }, func(f sut.Folders) string { return f.Plugins }},
		{"a file for a socket directory", func(f sut.Folders) error { return aFileInsteadOf(f.Sockets) }, func(f sut.Folders) string { return f.Sockets }},
		{"a file for a work directory", func(f sut.Folders) error { return aFileInsteadOf(f.Work) }, func(f sut.Folders) string { return f.Work }},
	}
	for _, this := range cases {
		t.Run(this.name, func(t *testing.T) {
			options := needsOurs(t)
			options.Prepare = this.prepare
			s, server := launched(t, options)
			code, err := server.Process().Exit(ends)
			if err != nil {
				t.Fatalf("expected it to end within %s: %v", ends, err)
			}
			if code <= 0 || !strings.Contains(s.Log(), this.named(s.Folders())) {
				t.Errorf("expected an exit code above 0 and a sentence about %s, got %d and %q", this.named(s.Folders()), code, s.Log())
			}
		})
	}
}

// aFileInsteadOf creates a path that not even root can use as a directory.
func aFileInsteadOf(directory string) error {
	if err := os.Remove(directory); err != nil {
		return err
	}
	return os.WriteFile(directory, nil, 0o644)
}

func TestOursRefusesToStartWithoutTheIdentitiesItWasAskedFor(t *testing.T) {
	const ends, unusable, nobody = time.Minute, 78, 65534
	options := needsOurs(t)
	if os.Geteuid() != 0 {
		lacks(t, "needs root, to switch to a UID without privileges")
	}
	reachable, err := sut.Reachable(options.Binary, scratch)
	if err != nil {
		t.Fatal(err)
	}
	options.Binary = reachable
	options.Isolation = "uid"
	options.Prepare = func(f sut.Folders) error {
		for _, dir := range []string{f.Sockets, f.Work, f.Temporary} {
			if err := os.Chown(dir, nobody, nobody); err != nil {
				return err
			}
		}
		return nil
	}
	options.Attach = func(command *exec.Cmd) {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	s, server := launched(t, options, plugin.Shell("cat", "true"))
	code, err := server.Process().Exit(ends)
	if err != nil || code != unusable {
		t.Errorf("expected exit code %d within %s, got %d (%v)", unusable, ends, code, err)
	}
	if !strings.Contains(s.Log(), "--isolation") {
		t.Errorf("expected a sentence about --isolation, got %q", s.Log())
	}
	if names := sockets(t, s); len(names) != 0 {
		t.Errorf("expected no socket, got %q", names)
	}
}

func TestOursWithoutPluginsWaitsForThem(t *testing.T) {
	s := ours(t)
	d := plugin.Shell("first", "echo 'kind: First'")
	if err := s.Add(d); err != nil {
		t.Fatal(err)
	}
	appears(t, s, d)
	got, err := s.generate(t, d, repositoryOf(t, tree.Files{"x": "x"}))
	rendered(t, got, err, `{"kind":"First"}`)
}

// reloadWithin is the time limit for a changed definition to take effect.
const reloadWithin = time.Minute

// appears waits for a plugin's socket, which must then answer at once. The peer
// gets more time, because clients can find it between its bind and its listen.
func appears(t *testing.T, s subject, d plugin.Definition) {
	t.Helper()
	if !s.isOurs() {
		if err := sut.Ready(s, d); err != nil {
			t.Fatal(err)
		}
		return
	}
	err := wait.Until(reloadWithin, "the socket "+d.Socket(), func() error {
		_, err := os.Lstat(s.Socket(d))
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Log())
	}
}
