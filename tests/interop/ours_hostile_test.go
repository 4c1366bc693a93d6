package interop

import (
	"archive/tar"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/wait"
)

// hostile is an archive that no honest client sends. Ours must answer with Argo
// CD's text, unless another text is given.
type hostile struct {
	name    string
	archive []byte
	// otherwise is the text of ours if it differs from Argo CD's result.
	otherwise string
}

// raw is a member that its owner can read.
func raw(header tree.Block, body string) []byte {
	if header.Mode == "" {
		header.Mode = "755"
	}
	return tree.Member(header, body)
}

var (
	plain  = raw(tree.Block{Name: "plain"}, "text")
	sized  = func(size string) []byte { return join(raw(tree.Block{Name: "f", Size: size}, "four"), plain) }
	after  = func(members ...[]byte) []byte { return join(append(members, plain)...) }
	linked = func(name, target string) []byte {
		return raw(tree.Block{Name: name, Type: tar.TypeSymlink, Link: target}, "")
	}
	special = func(kind byte, name string) []byte {
		return raw(tree.Block{Name: name, Type: kind, Link: "../../etc/passwd"}, "")
	}
	megabyte = strings.Repeat("m", 1<<20)
)

func hostileArchives() []hostile {
	const (
		sparse  = "the archive holds a sparse file, which is not supported"
		tooMuch = "the archive holds more than"
	)
	all := []hostile{
		{"size larger than the data", sized("100000"), ""},
		{"size smaller than the data", sized("1"), ""},
		{"size of a block too much", sized(tree.Octal(4 + tree.BlockSize)), ""},
		{"size negative", sized("-4"), ""},
		{"size negative in base 256", sized(strings.Repeat("\xff", 12)), ""},
		{"size in base 256", sized("\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04"), ""},
		{"size of exabytes", sized("\x80\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00"), tooMuch},
		{"size beyond 63 bits", sized("\x80" + strings.Repeat("\xff", 11)), ""},
		{"size that is no number", sized("12x"), ""},
		{"a directory with a size", after(raw(tree.Block{Name: "d", Type: tar.TypeDir, Size: "1000"}, "")), ""},
		{"a directory with a negative size", after(raw(tree.Block{Name: "d", Type: tar.TypeDir, Size: strings.Repeat("\xff", 12)}, "")), ""},
		{"a link with a size", after(raw(tree.Block{Name: "l", Type: tar.TypeSymlink, Link: "plain", Size: "1000"}, "")), ""},

		{"absolute", after(raw(tree.Block{Name: "/etc/passwd"}, "x")), ""},
		{"upwards", after(raw(tree.Block{Name: "../x"}, "x")), ""},
		{"upwards behind a dot", after(raw(tree.Block{Name: "./../x"}, "x")), ""},
		{"upwards behind a directory", after(raw(tree.Block{Name: "a/../../x"}, "x")), ""},
		{"upwards and absolute", after(raw(tree.Block{Name: "/../x"}, "x")), "illegal filepath in archive: /../x: "},
		{"the root as a file", after(raw(tree.Block{Name: "a/.."}, "x")), ""},
		{"no name", after(raw(tree.Block{}, "x")), ""},
		{"a name with NUL", after(raw(tree.Block{Name: "a\x00../../x"}, "x")), ""},
		{"a prefix upwards", after(raw(tree.Block{Name: "x", Prefix: ".."}, "x")), ""},
		{"a component of 255 bytes", after(tree.Long('L', strings.Repeat("n", 255)), plain), ""},
		{"a component of 256 bytes", after(tree.Long('L', strings.Repeat("n", 256)), plain), ""},
		{"a directory of 256 bytes", after(tree.Long('L', strings.Repeat("n", 256)+"/x"), plain), ""},
		{"a link with a name of 256 bytes", after(tree.Long('L', strings.Repeat("n", 256)), linked("l", "x")), ""},
		{"a link to 256 bytes", after(tree.Long('K', strings.Repeat("n", 256)), linked("l", "x")), ""},
		{"a link to 256 bytes that is not looked at", after(tree.Long('K', "no/"+strings.Repeat("n", 256)), linked("l", "x")), ""},
		{"a link to 5,000 bytes", after(tree.Long('K', strings.Repeat("no/", 1667)), linked("l", "x")), ""},
		{"a name of 4,096 bytes", after(tree.Long('L', strings.Repeat("n/", 2047)+"xy"), plain), "more than 4095 bytes"},
		{"300 directories", after(tree.Long('L', strings.Repeat("n/", 300)+"x"), plain), "more than 255 components: exclude"},

		{"links to links", after(linked("b", "plain"), linked("c", "b"), linked("d", "c")), ""},
		{"a file through two links", after(linked("b", "a"), linked("a", "plain"), raw(tree.Block{Name: "b"}, "new")), ""},
		{"a file through a link to nothing", after(linked("a", "new"), raw(tree.Block{Name: "a"}, "x")), ""},
		{"a file below a link to nothing", after(linked("a", "new"), raw(tree.Block{Name: "a/x"}, "x")), ""},
		{"a directory over a link to nothing", after(linked("a", "new"), raw(tree.Block{Name: "a", Type: tar.TypeDir}, "")), ""},
		{"a circle", after(linked("a", "b"), linked("b", "a"), raw(tree.Block{Name: "a"}, "x")), ""},
		{"a link into a circle", after(linked("a", "b"), linked("b", "a"), linked("c", "a")), ""},
		{"a file below a circle", after(linked("a", "a"), raw(tree.Block{Name: "a/x"}, "x")), ""},
		{"a link through a file", after(plain, linked("l", "plain/x")), ""},
		{"a link to /proc", after(linked("l", "/proc/self/environ")), ""},
		{"an absolute link upwards from a directory", after(linked("d/l", "/../plain")), "illegal filepath in symlink: /../plain: "},
		{"an absolute link with a detour", after(linked("d/l", "/x/../plain")), ""},
		{"a link with no target", after(linked("l", "")), ""},
		{"a link through a link, upwards", after(raw(tree.Block{Name: "real", Type: tar.TypeDir}, ""), raw(tree.Block{Name: "a/b", Type: tar.TypeDir}, ""),
			linked("a/b/s", "../../real"), linked("a/b/s/out", "../../../etc")), ""},
		{"a link through a link that is not there yet", after(linked("s", "real"), linked("s/l", "../x")), ""},
		{"a link to the root, and a file through it", after(linked("l", "."), raw(tree.Block{Name: "l/x"}, "x")), ""},
		{"a file over a link to the root", after(linked("l", "/"), raw(tree.Block{Name: "l"}, "x")), ""},

		{"what is neither file nor link", after(special(tar.TypeLink, "hard"), special(tar.TypeFifo, "fifo"), special(tar.TypeChar, "char"), special(tar.TypeBlock, "block"), special('Z', "unknown")), ""},
		{"a hard link upwards", after(special(tar.TypeLink, "../hard")), ""},
		{"a device over a file", after(plain, special(tar.TypeChar, "plain")), ""},
		{"a device with a size", after(raw(tree.Block{Name: "dev", Type: tar.TypeChar, Size: "1000"}, "")), ""},
		{"old sparse without a map", after(raw(tree.Block{Name: "s", Type: tar.TypeGNUSparse, Magic: tree.GNU}, "")), ""},
		{"old sparse of another dialect", after(raw(tree.Block{Name: "s", Type: tar.TypeGNUSparse}, "")), ""},
		{"sparse 1.0", after(tree.Extended('x', tree.Record("GNU.sparse.major", "1"), tree.Record("GNU.sparse.minor", "0"), tree.Record("GNU.sparse.realsize", "1000000000000")), raw(tree.Block{Name: "s"}, "0\n")), sparse},
		{"sparse 0.1", after(tree.Extended('x', tree.Record("GNU.sparse.map", "0,1"), tree.Record("GNU.sparse.size", "1000")), raw(tree.Block{Name: "s"}, "x")), sparse},
		{"sparse 0.0", after(tree.Extended('x', tree.Record("GNU.sparse.offset", "0"), tree.Record("GNU.sparse.numbytes", "1")), raw(tree.Block{Name: "s"}, "x")), sparse},

		{"an extended path", after(tree.Extended('x', tree.Record("path", "../x")), plain), ""},
		{"an extended size", after(tree.Extended('x', tree.Record("size", "2")), raw(tree.Block{Name: "f"}, "four")), ""},
		{"an extended size beyond the end", join(tree.Extended('x', tree.Record("size", "9999")), plain), ""},
		{"an extended size below zero", after(tree.Extended('x', tree.Record("size", "-1")), plain), ""},
		{"an extended size of exabytes", after(tree.Extended('x', tree.Record("size", "9000000000000000000")), plain), tooMuch},
		{"extended twice", after(tree.Extended('x', tree.Record("path", "a")), tree.Extended('x', tree.Record("linkpath", "b")), plain), ""},
		{"extended and nothing behind", join(tree.Extended('x', tree.Record("path", "a"))), ""},
		{"global records", after(tree.Extended('g', tree.Record("path", "for-all"), tree.Record("size", "1")), plain), ""},
		{"global records upwards", after(tree.Extended('g', tree.Record("path", "../x")), plain), ""},
		{"global records between", after(tree.Extended('x', tree.Record("path", "lost")), tree.Extended('g', tree.Record("comment", "c")), plain), ""},
		{"records of a megabyte", after(tree.Extended('x', tree.Record("comment", megabyte[:1<<20-30]), tree.Record("path", "a")), plain), ""},
		{"records of more", after(tree.Extended('x', tree.Record("comment", megabyte)), plain), ""},
		{"a record that lies about its length", after(tree.Extended('x', "99 path=a\n"), plain), ""},
		{"a record without a key", after(tree.Extended('x', "5 =a\n"), plain), ""},
		{"a record with NUL", after(tree.Extended('x', tree.Record("path", "a\x00b")), plain), ""},
		{"a long name of a megabyte", after(tree.Long('L', megabyte), plain), ""},
		{"a long name just below", after(tree.Long('L', megabyte[1:]), plain), "more than 4095 bytes: exclude"},
		{"long names in a row", after(tree.Long('L', "a"), tree.Long('K', "t"), tree.Long('L', "b"), plain), ""},
		{"a long name upwards", after(tree.Long('L', "../x"), plain), ""},
		{"a long name and an extended one", after(tree.Long('L', "long"), tree.Extended('x', tree.Record("path", "extended")), plain), ""},

		{"garbage behind", append(after(plain), "garbage"...), ""},
		{"a block of zeros between", tree.Gzip(tree.Join(plain, make([]byte, tree.BlockSize), plain)), ""},
		{"empty members", slices.Concat(tree.Gzip(nil), tree.Gzip(nil), after(plain), tree.Gzip(nil)), ""},
		{"a member that is none", slices.Concat(tree.Gzip(plain), []byte("none")), ""},
		{"a wrong checksum behind the end", flipped(after(plain), 8), ""},
		{"a wrong checksum without an end", flipped(tree.Gzip(plain), 8), ""},
		{"a wrong length without an end", flipped(tree.Gzip(plain), 1), ""},
		{"a header of gzip with all parts", withHeader(after(plain)), ""},
	}
	return all
}

// flipped changes one bit, at the given number of bytes before the end.
func flipped(archive []byte, before int) []byte {
	archive[len(archive)-before] ^= 1
	return archive
}

// withHeader adds every optional part to the gzip header.
func withHeader(archive []byte) []byte {
	const all = 0x02 | 0x04 | 0x08 | 0x10
	header := append([]byte{0x1f, 0x8b, 8, all}, make([]byte, 6)...)
	header = append(header, 3, 0, 'x', 't', 'r', 'n', 0, 'c', 0)
	sum := crc32.ChecksumIEEE(header)
	return slices.Concat(header, []byte{byte(sum), byte(sum >> 8)}, archive[10:])
}

func TestOursTakesOrRefusesWhatArgoCDDoes(t *testing.T) {
	s := ours(t, shown)
	c := s.dial(t, shown)
	before, processes := files(s), processesAtRest(s)
	for _, this := range hostileArchives() {
		t.Run(this.name, func(t *testing.T) {
			forGenerate, forMatch := askOurs(t, c, this.archive)
			if class(forGenerate.why) != class(forMatch.why) {
				t.Errorf("generate says %q, match says %q", forGenerate.why, forMatch.why)
			}
			if this.otherwise != "" {
				if !strings.Contains(forGenerate.why, this.otherwise) {
					t.Errorf("expected to be refused with %q, got %q %q", this.otherwise, forGenerate.why, forGenerate.tree)
				}
			} else if different := compared(askArgoCD(t, this.archive, true), forGenerate); different != "" {
				t.Error(different)
			}
		})
	}
	nothingLeft(t, s, before, processes)
}

func TestOursTakesOrRefusesEveryCutAsArgoCDDoes(t *testing.T) {
	// The data is incompressible, so that the cuts are spread over all of it.
	archive := after(raw(tree.Block{Name: "dir", Type: tar.TypeDir}, ""), tree.Extended('x', tree.Record("path", "dir/é")), raw(tree.Block{Name: "f"}, string(pseudoRandom(40))), linked("l", "dir/é"))
	s := ours(t, shown)
	c := s.dial(t, shown)
	before, processes := files(s), processesAtRest(s)
	for length := range archive {
		cut := archive[:length]
		forGenerate, forMatch := askOurs(t, c, cut)
		if class(forGenerate.why) != class(forMatch.why) {
			t.Errorf("cut at %d: generate says %q, match says %q", length, forGenerate.why, forMatch.why)
		}
		if different := compared(askArgoCD(t, cut, true), forGenerate); different != "" {
			t.Errorf("cut at %d: %s", length, different)
		}
	}
	t.Logf("%d cuts", len(archive))
	nothingLeft(t, s, before, processes)
}

func processesAtRest(s subject) int {
	return atRest(func() int { return len(s.Processes()) })
}

// nothingLeft checks that the server has the same files and processes as before
// the requests, and no process under a request's UID.
func nothingLeft(t *testing.T, s subject, before []string, processes int) {
	t.Helper()
	const firstLeased = 60000
	unchanged(t, s, before)
	err := wait.Until(goneWithin, "the requests' processes to go", func() error {
		now := s.Processes()
		leased := slices.ContainsFunc(now, func(e proc.Entry) bool { return proc.StatusOf(e.Pid).UID() >= firstLeased })
		if len(now) > processes || leased {
			return fmt.Errorf("expected %d processes and none of a request, got %v", processes, now)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
