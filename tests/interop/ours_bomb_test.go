package interop

import (
	"archive/tar"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// bomb is an archive of a number of equal pieces. Each is its own gzip member, so
// that it is compressed only once.
func bomb(first, piece []byte, count int) []byte {
	return slices.Concat(tree.Gzip(first), bytes.Repeat(tree.Gzip(piece), count))
}

// followedBy is a header for a number of megabytes, followed by as many zeros.
func followedBy(header tree.Block, megabytes int) []byte {
	header.Size = tree.Octal(megabytes << 20)
	return bomb(header.Bytes(), make([]byte, 1<<20), megabytes)
}

// many is a number of members that the function creates.
func many(count int, member func(i int) []byte) []byte {
	var all []byte
	for i := range count {
		all = append(all, member(i)...)
	}
	return all
}

func TestOursIsNotExhaustedByAnArchive(t *testing.T) {
	const (
		mostBytes, mostFiles = 8 << 20, 20_000
		tooMany              = "more than 20000 files: raise --max-repository-files"
		tooMuch              = "more than 8Mi of files: raise --max-repository"
	)
	options := needsOurs(t)
	options.Arguments = []string{"--max-repository", fmt.Sprint(mostBytes), "--max-repository-files", fmt.Sprint(mostFiles)}
	bombs := []struct {
		name    string
		archive []byte
		want    string
	}{
		{"a gigabyte in a file", followedBy(tree.Block{Name: "f"}, 1024), tooMuch},
		{"a gigabyte behind a device", followedBy(tree.Block{Name: "f", Type: 'Z'}, 1024), tooMuch},
		{"a gigabyte in a file that is named as the root", followedBy(tree.Block{Name: "."}, 1024), tooMuch},
		{"a million entries that are named as the root", bomb(nil, bytes.Repeat(tree.Block{Name: "a/.."}.Bytes(), 1000), 1000), tooMuch},
		{"a million directories that are named as the root", bomb(nil, bytes.Repeat(tree.Block{Name: "./", Type: tar.TypeDir}.Bytes(), 1000), 1000), tooMuch},
		{"a million links that are named as the root", bomb(nil, bytes.Repeat(tree.Block{Name: "/", Type: tar.TypeSymlink, Link: "x"}.Bytes(), 1000), 1000), tooMuch},
		{"many files that are large together", bomb(nil, tree.Member(tree.Block{Name: "f", Mode: "644"}, megabyte), 1024), tooMuch},
		{"extended headers and no entry", bomb(nil, tree.Extended('x', tree.Record("comment", megabyte[:1<<19])), 1024), tooMuch},
		{"long names and no entry", bomb(nil, tree.Long('L', megabyte[:1<<19]), 1024), tooMuch},
		{"a million empty entries", bomb(nil, bytes.Repeat(tree.Block{Name: "f", Mode: "644"}.Bytes(), 1000), 1000), tooMany},
		{"a million devices", bomb(nil, bytes.Repeat(tree.Block{Name: "f", Type: tar.TypeChar}.Bytes(), 1000), 1000), "raise --max-"},
		{"few entries and many directories", tree.Gzip(many(1000, func(i int) []byte {
			return tree.Block{Name: fmt.Sprintf("%d%s", i, strings.Repeat("/d", 40))}.Bytes()
		})), tooMany},
		{"directories that are closed to their owner", tree.Gzip(many(9500, func(i int) []byte {
			return tree.Join(tree.Long('L', fmt.Sprintf("%0200d", i)), tree.Block{Name: "d", Type: tar.TypeDir, Mode: "0000001"}.Bytes())
		})), "directories closed to their owner take more than 2097152 bytes"},
	}
	server, err := sut.StartOurs(options, scratch, shown)
	if err != nil {
		t.Fatal(err)
	}
	s := stopped(t, server)
	c := s.dial(t, shown)
	before, processes := files(s), processesAtRest(s)
	watched := watch(t, s)
	for _, bomb := range bombs {
		for _, method := range []client.Method{client.Generate, client.Match} {
			t.Run(bomb.name+"/"+method.Name, func(t *testing.T) {
				start := time.Now()
				_, err := c.Raw(within(t, 2*callWithin), method, client.Whole(".", bomb.archive)...)
				t.Logf("%d bytes, answered after %s: %v", len(bomb.archive), time.Since(start).Round(time.Millisecond), status.Convert(err).Message())
				if modes := bomb.want[0] == 'd'; modes && method.Name == client.Match.Name {
					// An index of names has no modes.
					if err != nil {
						t.Errorf("expected an answer, got %v", err)
					}
					return
				}
				refused(t, s, err, codes.Unknown, bomb.want)
			})
		}
	}
	watched.wasModest(t)
	nothingLeft(t, s, before, processes)
}
