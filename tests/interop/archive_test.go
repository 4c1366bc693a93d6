package interop

import (
	"archive/tar"
	"strconv"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	"google.golang.org/grpc/codes"
)

// listing is a plugin that prints every path below the app: its kind, its mode
// if it was kept, a link's target, and a file's content.
var listing = plugin.Definition{Name: "listing", Spec: `
preserveFileMode: true
generate:
  command: [sh, -c]
  args:
  - |
    find . -mindepth 1 | LC_ALL=C sort | while read -r path; do
      if [ -L "$path" ]; then echo "- $path -> $(readlink "$path")"
      elif [ -d "$path" ]; then echo "- $path/"
      else echo "- $path $(stat -c %a "$path") $(cat "$path")"
      fi
    done
`}

// link, directory and file are shorthands for archive members.
func link(name, target string) tree.Entry {
	return tree.Entry{Name: name, Link: target, Type: tar.TypeSymlink, Mode: 0o777}
}
func directory(name string) tree.Entry {
	return tree.Entry{Name: name, Type: tar.TypeDir, Mode: 0o755}
}
func file(name, body string) tree.Entry { return tree.Entry{Name: name, Body: body} }

func TestAnArchiveIsUnpackedAsArgoCDUnpacksIt(t *testing.T) {
	long := "a-name-of-a-hundred-and-more-bytes/needs-an-extended-header/because-the-old-header/has-room-for-less-than-that/é.yaml"
	cases := []struct {
		name    string
		archive []byte
		want    string
	}{
		{"root entries", tree.Archive(directory("."), directory("./"), file("./a", "1")), `["./a 644 1"]`},
		{"no directory entries", tree.Archive(file("x/y/z", "1")), `["./x/","./x/y/","./x/y/z 644 1"]`},
		{"modes", tree.Archive(tree.Entry{Name: "a", Body: "1", Mode: 0o755}, tree.Entry{Name: "b", Body: "2", Mode: 0o600}), `["./a 755 1","./b 600 2"]`},
		{"absolute names are of the root", tree.Archive(file("/etc/a", "1")), `["./etc/","./etc/a 644 1"]`},
		{"a detour", tree.Archive(file("x/../b", "1")), `["./b 644 1"]`},
		{"last content wins", tree.Archive(file("a", "first"), file("a", "last")), `["./a 644 last"]`},
		{"long names", tree.Archive(file(long, "1"), link("l", long)), `["./a-name-of-a-hundred-and-more-bytes/","./a-name-of-a-hundred-and-more-bytes/needs-an-extended-header/","./a-name-of-a-hundred-and-more-bytes/needs-an-extended-header/because-the-old-header/","./a-name-of-a-hundred-and-more-bytes/needs-an-extended-header/because-the-old-header/has-room-for-less-than-that/","./` + long + ` 644 1","./l -\u003e ` + long + `"]`},
		{"links", tree.Archive(file("real/a", "1"), link("l", "real"), link("real/up", "../real/a"), link("dangling", "nowhere")),
			`["./dangling -\u003e nowhere","./l -\u003e real","./real/","./real/a 644 1","./real/up -\u003e a"]`},
		{"links to links", tree.Archive(file("a", "1"), link("b", "a"), link("c", "b"), link("e", "d"), link("d", "a")),
			`["./a 644 1","./b -\u003e a","./c -\u003e b","./d -\u003e a","./e -\u003e d"]`},
		{"absolute links are of the root", tree.Archive(link("l", "/etc/passwd"), directory("x"), link("x/m", "/a")), `["./l -\u003e etc/passwd","./x/","./x/m -\u003e a"]`},
		{"links to the root", tree.Archive(link("l", "."), directory("d"), link("d/l", ".."), link("m", "")), `["./d/","./d/l -\u003e ..","./l -\u003e .","./m -\u003e ."]`},
		{"a link without a parent", tree.Archive(link("x/y", "z")), `["./x/","./x/y -\u003e z"]`},
		{"a file through a link", tree.Archive(file("real/a", "old"), link("l", "real/a"), file("l", "new")), `["./l -\u003e real/a","./real/","./real/a 644 new"]`},
		{"what is neither file, directory nor link vanishes", tree.Archive(file("a", "1"),
			tree.Entry{Name: "hard", Link: "a", Type: tar.TypeLink}, tree.Entry{Name: "fifo", Type: tar.TypeFifo}, tree.Entry{Name: "device", Type: tar.TypeChar}), `["./a 644 1"]`},
		{"no end marker", tree.Gzip(tree.Tar(file("a", "1"))[:1024]), `["./a 644 1"]`},
		{"several gzip members", append(tree.Gzip(tree.Tar(file("a", "1"))[:700]), tree.Gzip(tree.Tar(file("a", "1"))[700:])...), `["./a 644 1"]`},
		{"what follows the end marker is not read", tree.Gzip(append(tree.Tar(file("a", "1")), tree.Tar(file("b", "2"))...)), `["./a 644 1"]`},
		{"garbage behind", append(tree.Archive(file("a", "1")), "garbage"...), `["./a 644 1"]`},
	}
	onEach(t, func(t *testing.T, s subject) {
		c := s.dial(t, listing)
		for _, this := range cases {
			t.Run(this.name, func(t *testing.T) {
				reply, err := c.Raw(within(t, callWithin), client.Generate, client.Whole(".", this.archive)...)
				if err != nil {
					t.Fatalf("expected %s, got the error %v", this.want, err)
				}
				rendered(t, reply.(*plugins.ManifestResponse).GetManifests(), nil, this.want)
			})
		}
	}, listing)
}

func TestEntriesThatAreNamedAsTheRootAreSkipped(t *testing.T) {
	d := listing
	d.Spec += "discover: {find: {glob: '**/*'}}\n"
	kinds := map[string]struct {
		header tree.Block
		body   string
	}{
		"file":           {tree.Block{Type: tar.TypeReg}, strings.Repeat("dropped ", 1000)},
		"directory":      {tree.Block{Type: tar.TypeDir, Mode: "0"}, ""},
		"link":           {tree.Block{Type: tar.TypeSymlink, Link: "a"}, ""},
		"link upwards":   {tree.Block{Type: tar.TypeSymlink, Link: "../../outside"}, ""},
		"hard link":      {tree.Block{Type: tar.TypeLink, Link: "a"}, ""},
		"device":         {tree.Block{Type: tar.TypeChar}, ""},
		"unknown member": {tree.Block{Type: 'Z'}, "dropped"},
	}
	onEach(t, func(t *testing.T, s subject) {
		c := s.dial(t, d)
		for name, kind := range kinds {
			t.Run(name, func(t *testing.T) {
				var members []byte
				for _, kind.header.Name = range []string{".", "./", "/", "//", "/.", "./.", "a/..", "a/../", "/a/b/../..", ""} {
					members = append(members, raw(kind.header, kind.body)...)
				}
				shows(t, c, join(members), false)
				shows(t, c, join(members, raw(tree.Block{Name: "a", Mode: "644"}, "1"), members), true, `["./a 644 1"]`)
			})
		}
	}, d)
}

// shows checks the manifests for an archive, and whether its plugin claims it.
func shows(t *testing.T, c *client.Client, archive []byte, claimed bool, want ...string) {
	t.Helper()
	messages := client.Whole(".", archive)
	reply, err := c.Raw(within(t, callWithin), client.Generate, messages...)
	got, _ := reply.(*plugins.ManifestResponse)
	rendered(t, got.GetManifests(), err, want...)
	reply, err = c.Raw(within(t, callWithin), client.Match, messages...)
	if claims, _ := reply.(*plugins.RepositoryResponse); err != nil || claims.GetIsSupported() != claimed {
		t.Errorf("expected isSupported=%v, got %v, error %v", claimed, claims, err)
	}
}

func TestGenerateSeesNoSetIDBitsOfAnArchive(t *testing.T) {
	const all = `find . -mindepth 1 | LC_ALL=C sort | while read -r path; do echo "- $(stat -c '%a %n' "$path")"; done`
	kept := plugin.Definition{Name: "kept", Spec: "preserveFileMode: true\ngenerate: {command: [sh, -c], args: [" + strconv.Quote(all) + "]}\n"}
	lost := plugin.Definition{Name: "lost", Spec: "generate: {command: [sh, -c], args: [" + strconv.Quote(all) + "]}\n"}
	archive := tree.Gzip(tree.Join(
		raw(tree.Block{Name: "d", Type: tar.TypeDir, Mode: "0006755"}, ""),
		raw(tree.Block{Name: "d/f", Mode: "0006755"}, "#!/bin/sh\n"),
		raw(tree.Block{Name: "s", Type: tar.TypeDir, Mode: "0007700"}, ""),
		raw(tree.Block{Name: "s/u", Mode: "0004711"}, ""),
		raw(tree.Block{Name: "s/v", Mode: "0002750"}, ""),
		// The kernel's bits for the kind of file.
		raw(tree.Block{Name: "t", Mode: "0107755"}, ""),
	))
	onEach(t, func(t *testing.T, s subject) {
		for d, want := range map[*plugin.Definition]string{
			&kept: `["755 ./d","755 ./d/f","700 ./s","711 ./s/u","750 ./s/v","755 ./t"]`,
			&lost: `["755 ./d","644 ./d/f","755 ./s","644 ./s/u","644 ./s/v","644 ./t"]`,
		} {
			reply, err := s.raw(t, *d, client.Generate, client.Whole(".", archive)...)
			if d == &kept && !s.isOurs() {
				refusedLike(t, s, err, codes.Unknown, "ANY: mkdirat d: unsupported file mode")
				continue
			}
			if err != nil {
				t.Fatalf("%s: expected %s, got the error %v", d.Name, want, err)
			}
			rendered(t, reply.(*plugins.ManifestResponse).GetManifests(), nil, want)
		}
	}, kept, lost)
}

func TestAnEmptyTreeIsATree(t *testing.T) {
	d := plugin.Shell("count", `find . -mindepth 1 | wc -l`)
	onEach(t, func(t *testing.T, s subject) {
		for _, archive := range [][]byte{tree.Archive(), tree.Archive(directory(".")), tree.Gzip(nil)} {
			reply, err := s.raw(t, d, client.Generate, client.Whole(".", archive)...)
			if err != nil {
				t.Fatalf("expected manifests, got the error %v", err)
			}
			rendered(t, reply.(*plugins.ManifestResponse).GetManifests(), nil, "0")
		}
	}, d)
}

func TestAnArchiveCannotLeaveItsDirectory(t *testing.T) {
	const unpacking = "error decompressing tgz file: "
	cases := []struct {
		name       string
		archive    []byte
		peer, ours string
	}{
		{"a name upwards", tree.Archive(file("../outside", "1")), "ANY: mkdirat ..: path escapes from parent", "illegal filepath in archive: ../outside: "},
		{"a link upwards", tree.Archive(link("l", "../outside")), "error checking symlink ANY: path escapes from parent", "illegal filepath in symlink: ../outside: "},
		{"a link far upwards", tree.Archive(link("l", "../../../../../../../etc/passwd")), "error checking symlink ANY: path escapes from parent", "illegal filepath in symlink: "},
		{"a link below a link", tree.Archive(directory("d"), link("l", "d"), link("l/m", "x")), `illegal symlink parent directory "l" for "l/m"`, "illegal symlink parent directory for l/m: "},
		{"a link through a file", tree.Archive(file("a", "1"), link("l", "a/b")), `error checking symlink "a/b" target: statat a/b: not a directory`, `error checking symlink "a/b" target: the link l: not a directory`},
		{"a link over a file", tree.Archive(file("a", "1"), link("a", "b")), "error creating symlink: symlinkat b a: file exists", "error creating symlink: symlink b a: file exists"},
		{"a file over a directory", tree.Archive(directory("d"), file("d", "1")), `error creating file "d": openat d: is a directory`, `error creating file "d": open d: is a directory`},
		{"a directory over a file", tree.Archive(file("f", "1"), directory("f")), "error creating nested folders: mkdirat f: file exists", "error creating nested folders: mkdir f: not a directory"},
		{"a file below a file", tree.Archive(file("f", "1"), file("f/g", "1")), "error creating nested folders: mkdirat f: file exists", "error creating nested folders: mkdir f: not a directory"},
	}
	onEach(t, func(t *testing.T, s subject) {
		c := s.dial(t, listing)
		for _, this := range cases {
			t.Run(this.name, func(t *testing.T) {
				_, err := c.Raw(within(t, callWithin), client.Generate, client.Whole(".", this.archive)...)
				want := this.peer
				if s.isOurs() {
					want = this.ours
				}
				refusedLike(t, s, err, codes.Unknown, client.Generate.StreamPrefix+unpacking+want)
			})
		}
	}, listing)
}
