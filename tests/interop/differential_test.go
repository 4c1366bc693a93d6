package interop

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/tree"
)

// The number of random archives, and the seed that selects them.
var (
	archives    = flag.Int("archives", 150, "random archives that Argo CD and cmp-supervisor both unpack")
	archiveSeed = flag.Uint64("archive-seed", 1, "seed of the random archives")
)

// deliberate are the intended differences from Argo CD's unpacking.
var deliberate = []struct {
	why string
	is  func(theirs, ours unpacked) bool
}{
	{"a sparse file is refused: its holes could claim any size", func(_, ours unpacked) bool {
		return strings.Contains(ours.why, "sparse file, which is not supported")
	}},
	{"an absolute name or link that leads upwards is refused; for Argo CD, the root is above the root", func(_, ours unpacked) bool {
		return strings.HasPrefix(ours.why, "illegal filepath in archive: /") || strings.HasPrefix(ours.why, "illegal filepath in symlink: /")
	}},
	{"a name that leads upwards is the first reason; Argo CD may have another one", func(theirs, ours unpacked) bool {
		return strings.HasPrefix(ours.why, "illegal filepath in archive: ") && theirs.why != ""
	}},
	{"a directory below a link to nothing is refused; Argo CD makes what the link leads to", func(_, ours unpacked) bool {
		return strings.HasPrefix(ours.why, "error creating nested folders: ") && strings.HasSuffix(ours.why, ": file exists")
	}},
}

// cutModes is one more. The rest of the answer must then be that of Argo CD without modes.
const cutModes = "modes with more than permissions are cut to them; Argo CD refuses them if it keeps modes"

func TestOursUnpacksRandomArchivesAsArgoCDDoes(t *testing.T) {
	s := ours(t, shown)
	c := s.dial(t, shown)
	random := rand.New(rand.NewPCG(*archiveSeed, 0))
	refusals, meant := map[string]int{}, map[string]int{}
	for round := range *archives {
		archive := randomArchive(random)
		theirs := askArgoCD(t, archive, true)
		forGenerate, forMatch := askOurs(t, c, archive)
		refusals[class(theirs.why)]++
		if strings.HasSuffix(theirs.why, ": unsupported file mode") {
			meant[cutModes]++
			theirs, forGenerate = askArgoCD(t, archive, false).withoutModes(), forGenerate.withoutModes()
		}
		if class(forGenerate.why) != class(forMatch.why) {
			t.Errorf("round %d: generate says %q, match says %q\n%s", round, forGenerate.why, forMatch.why, keep(t, archive))
		}
		if different := compared(theirs, forGenerate); different == "" {
			continue
		} else if i := slices.IndexFunc(deliberate, func(d struct {
			why string
			is  func(theirs, ours unpacked) bool
		}) bool {
			return d.is(theirs, forGenerate)
		}); i >= 0 {
			meant[deliberate[i].why]++
		} else {
			t.Errorf("round %d: %s\n%s", round, different, keep(t, archive))
		}
	}
	t.Logf("Argo CD's answers: %v; deliberate differences: %v", refusals, meant)
}

// compared describes the difference; empty if there is none.
func compared(theirs, ours unpacked) string {
	if theirs.why != "" || ours.why != "" {
		if theirs.why == "" || ours.why == "" || class(theirs.why) != class(ours.why) {
			return fmt.Sprintf("Argo CD says %q, ours %q", theirs.why, ours.why)
		}
		return ""
	}
	if !slices.Equal(theirs.tree, ours.tree) {
		return fmt.Sprintf("Argo CD makes\n%s\nours makes\n%s", strings.Join(theirs.tree, "\n"), strings.Join(ours.tree, "\n"))
	}
	return ""
}

// keep saves an archive if -keep names a directory.
func keep(t *testing.T, archive []byte) string {
	if directory := os.Getenv("INTEROP_KEEP"); directory != "" {
		file := filepath.Join(directory, fmt.Sprintf("%s-%s.tgz", t.Name(), client.Sum(archive)[:8]))
		if os.WriteFile(file, archive, 0o644) == nil {
			return "the archive is in " + file
		}
	}
	return "set INTEROP_KEEP to a directory to have the archive there"
}

// A small set of names, so that entries collide.
var (
	randomNames = []string{"a", "b", "c", "l", "d", "e", "..", ".", "", "é", "x y", "n\nl", strings.Repeat("long", 30), strings.Repeat("z", 256)}
	nameWeights = []int{9, 9, 6, 9, 6, 3, 2, 1, 1, 1, 1, 1, 1, 1}
	randomTypes = []byte{tar.TypeReg, tar.TypeReg, tar.TypeReg, tar.TypeDir, tar.TypeDir, tar.TypeSymlink, tar.TypeSymlink, tar.TypeSymlink,
		tar.TypeLink, tar.TypeFifo, tar.TypeChar, tar.TypeCont, tree.TypeNUL, tar.TypeGNUSparse, 'Z'}
	fileModes = []string{"644", "755", "600", " 666 ", "644", "755", "600", "4755"}
)

func randomName(random *rand.Rand) string {
	parts := make([]string, 1+random.IntN(3))
	for i := range parts {
		parts[i] = weighted(random)
	}
	name := strings.Join(parts, "/")
	switch random.IntN(20) {
	case 0:
		return "/" + name
	case 1:
		return name + "/"
	case 2:
		return "./" + name
	}
	return name
}

func weighted(random *rand.Rand) string {
	sum := 0
	for _, weight := range nameWeights {
		sum += weight
	}
	at := random.IntN(sum)
	for i, weight := range nameWeights {
		if at -= weight; at < 0 {
			return randomNames[i]
		}
	}
	return ""
}

// randomMember is one entry, written in one of the possible ways.
func randomMember(random *rand.Rand) []byte {
	kind := randomTypes[random.IntN(len(randomTypes))]
	header := tree.Block{Name: randomName(random), Type: kind, Mode: fileModes[random.IntN(len(fileModes))], Link: ""}
	body := ""
	switch kind {
	case tar.TypeSymlink, tar.TypeLink:
		header.Link = randomName(random)
	case tar.TypeReg, tree.TypeNUL, tar.TypeCont, 'Z':
		body = strings.Repeat("text ", random.IntN(250))
	case tar.TypeDir:
		header.Mode = "755"
	}
	var before []byte
	switch name, link := header.Name, header.Link; {
	case len(name) > 100 || len(link) > 100 || random.IntN(6) == 0:
		before = randomLong(random, name, link)
		header.Name, header.Link = "short", "target"
	case random.IntN(12) == 0:
		header.Magic = []string{tree.GNU, "", "\x00\x00\x00\x00\x00\x00\x00\x00", "garbage"}[random.IntN(4)]
	case random.IntN(20) == 0:
		header.Prefix = randomName(random)
	}
	return append(before, tree.Member(header, body)...)
}

func randomLong(random *rand.Rand, name, link string) []byte {
	if random.IntN(2) == 0 {
		return tree.Join(tree.Long('L', name), tree.Long('K', link))
	}
	records := []string{tree.Record("path", name), tree.Record("linkpath", link)}
	if random.IntN(4) == 0 {
		records = append(records, [][]string{
			{tree.Record("path", "b")}, {tree.Record("path", "")}, {tree.Record("uid", "-1")}, {tree.Record("mtime", "1.5")},
			{tree.Record("size", "3")}, {tree.Record("size", "-3")}, {tree.Record("size", "x"), tree.Record("size", "7")},
			{tree.Record("SCHILY.xattr.user.a", "\x00")}, {tree.Record("GNU.sparse.major", "1")}, {tree.Record("path", "nul\x00")},
		}[random.IntN(10)]...)
	}
	kind := byte('x')
	if random.IntN(8) == 0 {
		kind = 'g'
	}
	return tree.Extended(kind, records...)
}

func randomArchive(random *rand.Rand) []byte {
	var members []byte
	for range random.IntN(9) {
		members = append(members, randomMember(random)...)
	}
	if random.IntN(5) > 0 {
		members = append(members, tree.End()...)
	}
	if random.IntN(3) == 0 {
		members = mutated(random, members)
	}
	return compressed(random, members)
}

// mutated is a damaged archive. Checksums are often corrected, because
// otherwise nothing after them would be read.
func mutated(random *rand.Rand, archive []byte) []byte {
	archive = bytes.Clone(archive)
	if len(archive) == 0 {
		return archive
	}
	switch random.IntN(5) {
	case 0:
		return archive[:random.IntN(len(archive))]
	case 1:
		at := random.IntN(len(archive)/tree.BlockSize) * tree.BlockSize
		return slices.Delete(archive, at, at+tree.BlockSize)
	case 2:
		at := random.IntN(len(archive)/tree.BlockSize) * tree.BlockSize
		return slices.Insert(archive, at, archive[at:at+tree.BlockSize]...)
	}
	for range 1 + random.IntN(3) {
		at := random.IntN(len(archive))
		// Half of all mutations change the numbers in a header.
		if random.IntN(2) == 0 {
			at = at/tree.BlockSize*tree.BlockSize + 100 + random.IntN(57)
		}
		archive[at] = "\x00\x01 07a/.\x80\xff"[random.IntN(10)]
		if block := archive[at/tree.BlockSize*tree.BlockSize:][:tree.BlockSize]; random.IntN(4) > 0 {
			tree.Sign(block)
		}
	}
	return archive
}

func compressed(random *rand.Rand, plain []byte) []byte {
	packed := tree.Gzip(plain)
	switch random.IntN(12) {
	case 0:
		at := random.IntN(len(plain) + 1)
		return slices.Concat(tree.Gzip(plain[:at]), tree.Gzip(nil), tree.Gzip(plain[at:]))
	case 1:
		return append(packed, "garbage"...)
	case 2:
		return packed[:random.IntN(len(packed))]
	case 3:
		packed[len(packed)-1-random.IntN(8)] ^= 1
	case 4:
		packed[random.IntN(len(packed))] ^= byte(1 << random.IntN(8))
	}
	return packed
}
