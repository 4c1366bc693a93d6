package interop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/tree"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	argocd "github.com/argoproj/argo-cd/v3/util/io/files"
	"google.golang.org/grpc/status"
)

// unpacked is the result of unpacking an archive: a tree, or an error.
type unpacked struct {
	// tree has a line for each path: kind, mode, path, and content or target.
	tree []string
	// why is the error; empty if there is a tree.
	why string
}

// shown is a plugin that prints the tree below the app, with any bytes in names.
var shown = plugin.Definition{Name: "shown", Spec: `
preserveFileMode: true
generate:
  command: [sh, -c]
  args:
  - |
    printf '{"paths":"%s","sums":"%s"}' "$(find . -mindepth 1 -printf '%y %m %p\0%l\0' | base64 -w0)" \
      "$(find . -type f -print0 | xargs -0 -r sha256sum -z | base64 -w0)"
discover: {fileName: no-such-file}
`}

// askOurs lets ours unpack the archive for generate, and read it for discovery.
func askOurs(t *testing.T, c *client.Client, archive []byte) (forGenerate, forMatch unpacked) {
	t.Helper()
	messages := client.Whole(".", archive)
	reply, err := c.Raw(within(t, callWithin), client.Generate, messages...)
	if err != nil {
		forGenerate = unpacked{why: reason(t, err, client.Generate)}
	} else {
		forGenerate = unpacked{tree: printed(t, reply.(*plugins.ManifestResponse).GetManifests())}
	}
	if _, err = c.Raw(within(t, callWithin), client.Match, messages...); err != nil {
		forMatch = unpacked{why: reason(t, err, client.Match)}
	}
	return forGenerate, forMatch
}

// reason is the part of an error that is about the archive.
func reason(t *testing.T, err error, method client.Method) string {
	t.Helper()
	text := status.Convert(err).Message()
	why, found := strings.CutPrefix(text, method.StreamPrefix+"error decompressing tgz file: ")
	if !found {
		t.Errorf("expected an error about the archive, got %q", text)
	}
	// Ours adds the name of the request.
	return whose.ReplaceAllString(why, "")
}

var whose = regexp.MustCompile(` \(plugin [^()]*\)$`)

// printed is the tree that the plugin shown printed.
func printed(t *testing.T, manifests []string) []string {
	t.Helper()
	if len(manifests) != 1 {
		t.Fatalf("expected one manifest, got %q", manifests)
	}
	var manifest struct{ Paths, Sums []byte }
	decode(t, manifests[0], &manifest)
	content := map[string]string{}
	for sum := range strings.SplitSeq(string(manifest.Sums), "\x00") {
		if sum, path, found := strings.Cut(sum, "  "); found {
			content[path] = sum
		}
	}
	var lines []string
	// The target is empty except for links.
	for pair := range slices.Chunk(strings.Split(string(manifest.Paths), "\x00"), 2) {
		if len(pair) == 2 {
			lines = append(lines, line(pair[0], content, pair[1]))
		}
	}
	slices.Sort(lines)
	return lines
}

func line(found string, content map[string]string, target string) string {
	kind, rest, _ := strings.Cut(found, " ")
	mode, path, _ := strings.Cut(rest, " ")
	return describe(kind, mode, strings.TrimPrefix(path, "./"), content[path], target)
}

func describe(kind, mode, path, content, target string) string {
	if kind == "l" {
		return fmt.Sprintf("l %q -> %q", path, target)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %q %s", kind, mode, path, content))
}

// withoutModes is the same tree with nothing about modes.
func (u unpacked) withoutModes() unpacked {
	lines := make([]string, len(u.tree))
	for i, line := range u.tree {
		lines[i] = modeOf.ReplaceAllString(line, "$1")
	}
	slices.Sort(lines)
	return unpacked{tree: lines, why: u.why}
}

var modeOf = regexp.MustCompile(`^([df]) [0-7]+`)

// askArgoCD unpacks with Argo CD's own code in this process. The directory is
// deep, so that links that lead out of it do not get far.
func askArgoCD(t *testing.T, archive []byte, keepsModes bool) unpacked {
	t.Helper()
	above := filepath.Join(scratch, "oracle-"+proc.Token())
	root := filepath.Join(above, "1/2/3/4/5/6/7/8/9")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(above); err != nil {
			t.Error(err)
		}
	}()
	if err := argocd.Untgz(root, bytes.NewReader(archive), math.MaxInt64, keepsModes); err != nil {
		return unpacked{why: strings.ReplaceAll(err.Error(), root+"/", "")}
	}
	return unpacked{tree: listed(t, root)}
}

// listed is a directory in the format of the plugin shown.
func listed(t *testing.T, root string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		relative := strings.TrimPrefix(path, root+"/")
		mode := fmt.Sprintf("%o", info.Mode().Perm())
		switch info.Mode().Type() {
		case 0:
			content, err := os.ReadFile(path)
			sum := sha256.Sum256(content)
			lines = append(lines, describe("f", mode, relative, hex.EncodeToString(sum[:]), ""))
			return err
		case fs.ModeDir:
			lines = append(lines, describe("d", mode, relative, "", ""))
			return nil
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			lines = append(lines, describe("l", "", relative, "", target))
			return err
		default:
			return errors.New("unexpected: " + path)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

// class is the common part of similar errors: the action and the cause, without
// paths, offsets and advice.
func class(why string) string {
	if strings.HasPrefix(why, "illegal filepath in ") || strings.Contains(why, "path escapes from parent") {
		return "outside"
	}
	attempt, rest, _ := strings.Cut(why, ": ")
	attempt = regexp.MustCompile(`(?s)^(error creating file|error checking symlink|illegal symlink parent directory).*`).ReplaceAllString(attempt, "$1")
	switch {
	case attempt == "illegal symlink parent directory":
		return attempt
	// A directory that is a file is noticed at different times.
	case attempt == "error creating nested folders" || strings.HasPrefix(why, "error checking symlink parent "):
		return "error creating nested folders"
	}
	cause := rest[strings.LastIndex(rest, ": ")+1:]
	// Go notices a broken gzip stream together with the bytes before it. Depending on
	// its buffers, these belong to a file or follow it.
	if broken := []string{"unexpected EOF", "flate", "gzip"}; attempt == "error writing tgz file" && slices.ContainsFunc(broken, func(what string) bool { return strings.HasPrefix(rest, what) }) {
		attempt = "error while iterating on tar reader"
	}
	return attempt + ": " + strings.TrimSpace(regexp.MustCompile(`[0-9]+`).ReplaceAllString(cause, "N"))
}

// join is an archive of members with the end mark, compressed.
func join(members ...[]byte) []byte {
	return tree.Gzip(append(tree.Join(members...), tree.End()...))
}
