package interop

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/wait"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
)

// part is a plugin that has only the directory `app` unpacked. It prints the files
// that it sees, and then changes them.
var part = plugin.Definition{Name: "part", Spec: `
workspace: {include: [".", "/shared/*.yaml"]}
generate:
  command: [sh, -c]
  args: ['cd ..; printf "{\"files\":\"%s\"}" "$(find . -type f -exec cat {} + | sha256sum)$(find . | LC_ALL=C sort | tr "\n" " ")"; for f in $(find . -type f); do echo changed > $f; chmod 777 $f; done; rm -rf app; mkdir added']
`}

// monorepo is part with a pattern of the repository above the directory `team`.
var monorepo = plugin.Definition{Name: "monorepo", Spec: strings.Replace(part.Spec, "/shared/", "/team/shared/", 1)}

// sharing is summing with a repository that requests share. It tries to change it.
var sharing = plugin.Definition{Name: "sharing", Spec: strings.Replace(summing.Spec,
	"    printf", "    (chmod -R 777 .; for f in $(find . -type f); do echo changed > $f; rm -f $f; done; touch added) 2>/dev/null\n    printf", 1) +
	"workspace: {readOnly: true}\n"}

// repeated is a repository that is large enough to be kept, packed as Argo CD does.
// Its first file has the given text.
func repeated(t *testing.T, text string) (tree.Files, client.Packed) {
	t.Helper()
	const noise = 1 << 20
	files := tree.Files{
		"app/app.yaml":       text,
		"app/noise":          string(pseudoRandom(noise)),
		"shared/common.yaml": "common: " + text,
		"shared/other":       "left out",
		"other/last.yaml":    "last",
	}
	packed, err := at(repositoryOf(t, files), "app").Pack()
	if err != nil {
		t.Fatal(err)
	}
	return files, packed
}

// answers makes a call and returns the only manifest.
func answers(t *testing.T, c *client.Client, messages []client.Message) string {
	t.Helper()
	reply, err := c.Raw(within(t, callWithin), client.Generate, messages...)
	if err != nil {
		t.Fatalf("expected an answer, got the error %v", err)
	}
	manifests := reply.(*plugins.ManifestResponse).GetManifests()
	if len(manifests) != 1 {
		t.Fatalf("expected one manifest, got %q", manifests)
	}
	return manifests[0]
}

// refusal makes a call and returns its error.
func refusal(t *testing.T, c *client.Client, messages []client.Message) string {
	t.Helper()
	reply, err := c.Raw(within(t, callWithin), client.Generate, messages...)
	if err == nil {
		t.Fatalf("expected an error, got %v", reply)
	}
	return err.Error()
}

// archivesInUse is the memory of kept archives, as the metrics tell it.
func archivesInUse(t *testing.T, s subject) float64 {
	t.Helper()
	answer, err := http.Get("http://" + s.Server.(*sut.Ours).HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if text, found := strings.CutPrefix(line, `argocd_cmp_budget_used{resource="archives"} `); found {
			used, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return used
		}
	}
	t.Fatal("the metrics do not tell the memory of archives")
	return 0
}

// isKept waits until archives are kept. The metrics are measured every 2 s.
func isKept(t *testing.T, s subject) {
	t.Helper()
	err := wait.Until(callWithin, "a kept archive", func() error {
		if archivesInUse(t, s) == 0 {
			return fmt.Errorf("nothing is kept")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOursKeptArchivesAreTheSameForAll(t *testing.T) {
	needsOurs(t)
	files, packed := repeated(t, "text: 1")
	s := ours(t, summing, part)
	whole := s.dial(t, summing)
	sliced := s.dial(t, part)
	packed.Metadata.GetMetadata().AppRelPath = "."
	first := sumOf(files)
	sent := packed.Messages()
	inApp := inApp(packed)
	seen := answers(t, sliced, inApp)
	isPart(t, seen)
	// The second call makes the kept archive; the later ones use it, and see nothing of
	// the changes that the earlier ones made to their files.
	for range 5 {
		if got := answers(t, sliced, inApp); got != seen {
			t.Fatalf("expected %s, got %s", seen, got)
		}
		if got := answers(t, whole, sent); got != first {
			t.Fatalf("expected %s, got %s", first, got)
		}
	}
	isKept(t, s)
}

// With an annotation of the application, Argo CD sends a directory of the repository.
func TestOursPatternsOfTheRepositoryHoldInADirectoryOfIt(t *testing.T) {
	needsOurs(t)
	_, packed := repeated(t, "text: 1")
	s := ours(t, monorepo)
	c := s.dial(t, monorepo)
	inTeam := inApp(packed)
	inTeam[0].GetMetadata().Env = []*plugins.EnvEntry{{Name: "ARGOCD_APP_SOURCE_PATH", Value: "team/app"}}
	for range 3 {
		isPart(t, answers(t, c, inTeam))
	}
	isKept(t, s)
}

// inApp is a request for the directory `app` of a packed repository.
func inApp(packed client.Packed) []client.Message {
	metadata := client.Metadata("app", packed.Metadata.GetMetadata().GetChecksum())
	metadata.GetMetadata().Size_ = int64(packed.Size)
	return append([]client.Message{metadata}, packed.Chunks...)
}

// isPart checks which files of repeated a plugin saw.
func isPart(t *testing.T, seen string) {
	t.Helper()
	for _, expected := range []string{"./app/noise", "./shared/common.yaml"} {
		if !strings.Contains(seen, expected) {
			t.Fatalf("expected %s, got %s", expected, seen)
		}
	}
	if strings.Contains(seen, "other") {
		t.Fatalf("expected a part of the files, got %s", seen)
	}
}

func TestOursKeptArchivesCannotBePoisoned(t *testing.T) {
	needsOurs(t)
	files, packed := repeated(t, "text: honest")
	_, other := repeated(t, "text: hostile")
	packed.Metadata.GetMetadata().AppRelPath = "."
	for _, d := range []plugin.Definition{summing, sharing} {
		t.Run(d.Name, func(t *testing.T) { cannotBePoisoned(t, d, sumOf(files), packed, other) })
	}
}

// cannotBePoisoned answers those who send the whole archive, whatever others send with
// its checksum.
func cannotBePoisoned(t *testing.T, d plugin.Definition, expected string, packed, other client.Packed) {
	s := ours(t, d)
	c := s.dial(t, d)
	sent := packed.Messages()
	changed := bytes.Clone(packed.Chunks[len(packed.Chunks)/2].GetFile().GetChunk())
	changed[0] ^= 1
	half := len(packed.Chunks) / 2
	stated := packed.Metadata
	lies := map[string][]client.Message{
		"nothing":       {stated},
		"a part":        append([]client.Message{stated}, packed.Chunks[:half]...),
		"too much":      append(packed.Messages(), client.Chunk([]byte("more"))),
		"another":       append([]client.Message{stated}, other.Chunks...),
		"a changed bit": append(append(append([]client.Message{stated}, packed.Chunks[:half]...), client.Chunk(changed)), packed.Chunks[half+1:]...),
	}
	lie := func() {
		for name, messages := range lies {
			// Twice, because a checksum that comes again is a reason to keep the archive.
			for range 2 {
				if got := refusal(t, c, messages); !strings.Contains(got, "checksum validation error") {
					t.Fatalf("%s: expected an error about the checksum, got %s", name, got)
				}
			}
		}
	}
	lie()
	for range 4 {
		if got := answers(t, c, sent); got != expected {
			t.Fatalf("expected %s, got %s", expected, got)
		}
	}
	isKept(t, s)
	lie()
	if got := answers(t, c, sent); got != expected {
		t.Fatalf("expected %s, got %s", expected, got)
	}
}

func TestOursKeepsManyArchivesAtATime(t *testing.T) {
	needsOurs(t)
	const archives = 12
	s := ours(t, summing, sharing)
	var group sync.WaitGroup
	for i := range 2 * archives {
		d := []plugin.Definition{summing, sharing}[i%2]
		files, packed := repeated(t, fmt.Sprintf("text: %d", i))
		packed.Metadata.GetMetadata().AppRelPath = "."
		c := s.dial(t, d)
		group.Go(func() {
			for range 3 {
				reply, err := c.Raw(within(t, callWithin), client.Generate, packed.Messages()...)
				if err != nil || reply.(*plugins.ManifestResponse).GetManifests()[0] != sumOf(files) {
					t.Errorf("expected %s, got %v, error %v", sumOf(files), reply, err)
				}
			}
		})
	}
	group.Wait()
	isKept(t, s)
}
