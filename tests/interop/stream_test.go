package interop

import (
	"archive/tar"
	"bytes"
	"math"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	"google.golang.org/grpc/codes"
)

// streaming is a plugin whose three answers depend on app.yaml.
var streaming = plugin.Definition{Name: "streaming", Spec: `
generate: {command: [cat, app.yaml]}
discover: {fileName: app.yaml}
parameters: {static: [{name: a}]}
`}

// appArchive is the archive for streaming.
var appArchive = tree.Archive(tree.Entry{Name: ".", Type: tar.TypeDir, Mode: 0o755}, tree.Entry{Name: "app.yaml", Body: "kind: App\n"})

// methods are the three calls that take a stream.
var methods = []client.Method{client.Generate, client.Match, client.Parameters}

func TestAMalformedStreamIsRefused(t *testing.T) {
	const (
		receiving     = "error receiving tgz file: "
		decompressing = "error decompressing tgz file: "
	)
	sum := client.Sum(appArchive)
	whole := client.Whole(".", appArchive)
	plain := tree.Tar(tree.Entry{Name: "app.yaml", Body: strings.Repeat("x", 2000)})
	archived := func(archive []byte) []client.Message { return client.Whole(".", archive) }
	cases := []struct {
		name     string
		messages []client.Message
		want     string
	}{
		{"half-close first", nil, "error receiving stream header: EOF"},
		{"file first", whole[1:], "error getting stream metadata: metadata is nil"},
		{"nothing set first", []client.Message{client.Neither()}, "error getting stream metadata: metadata is nil"},
		{"second metadata", append([]client.Message{whole[0], whole[0]}, whole[1:]...), receiving + "stream request file is nil"},
		{"metadata at the end", append(append([]client.Message{}, whole...), whole[0]), receiving + "stream request file is nil"},
		{"nothing set later", append(append([]client.Message{}, whole...), client.Neither()), receiving + "stream request file is nil"},
		{"checksum mismatch", append([]client.Message{client.Metadata(".", client.Sum(nil))}, whole[1:]...), receiving + "file checksum validation error"},
		{"no checksum", append([]client.Message{client.Metadata(".", "")}, whole[1:]...), receiving + "file checksum validation error"},
		{"checksum in capitals", append([]client.Message{client.Metadata(".", strings.ToUpper(sum))}, whole[1:]...), receiving + "file checksum validation error"},
		{"metadata only", []client.Message{whole[0]}, receiving + "file checksum validation error"},
		{"archive cut on the way", whole[:len(whole)-1], receiving + "file checksum validation error"},
		{"not gzip", archived(bytes.Repeat([]byte("not gzip "), 100)), decompressing + "error reading file: gzip: invalid header"},
		{"not gzip, and an application outside", client.Whole("../outside", bytes.Repeat([]byte("not gzip "), 100)), decompressing + "error reading file: gzip: invalid header"},
		{"short", archived([]byte{0x1f, 0x8b}), decompressing + "error reading file: unexpected EOF"},
		{"empty archive", archived(nil), decompressing + "error reading file: EOF"},
		{"not tar", archived(tree.Gzip(bytes.Repeat([]byte("not a tar header"), 100))), decompressing + "error while iterating on tar reader: archive/tar: invalid tar header"},
		{"truncated header", archived(tree.Gzip(plain[:100])), decompressing + "error while iterating on tar reader: unexpected EOF"},
		{"truncated member", archived(tree.Gzip(plain[:1000])), decompressing + "error writing tgz file: unexpected EOF"},
		{"truncated gzip", archived(appArchive[:len(appArchive)/2]), decompressing + "ANYunexpected EOF"},
	}
	onEach(t, func(t *testing.T, s subject) {
		c := s.dial(t, streaming)
		for _, method := range methods {
			for _, this := range cases {
				t.Run(method.Name+"/"+this.name, func(t *testing.T) {
					_, err := c.Raw(within(t, callWithin), method, this.messages...)
					refusedLike(t, s, err, codes.Unknown, method.StreamPrefix+this.want)
				})
			}
			// The connection must still work.
			if _, err := c.Raw(within(t, callWithin), method, whole...); err != nil {
				t.Errorf("%s after the malformed streams: expected an answer, got the error %v", method.Name, err)
			}
		}
	}, streaming)
}

func TestAMessageThatCannotBeReadIsNoCancelledCall(t *testing.T) {
	const limit = 100 << 20
	whole := client.Whole(".", appArchive)
	cases := []struct {
		name     string
		messages []client.Message
		code     codes.Code
		want     string
	}{
		{"no protobuf first", []client.Message{client.Unreadable()}, codes.Internal, "grpc: failed to unmarshal the received message: ANY"},
		{"no protobuf later", []client.Message{whole[0], client.Unreadable()}, codes.Internal, "grpc: failed to unmarshal the received message: ANY"},
		{"too long", []client.Message{whole[0], client.Chunk(make([]byte, limit))}, codes.ResourceExhausted, "grpc: received message larger than max (104857610 vs. 104857600)"},
	}
	onEach(t, func(t *testing.T, s subject) {
		for _, this := range cases {
			for _, method := range methods {
				_, err := s.raw(t, streaming, method, this.messages...)
				refusedLike(t, s, err, this.code, this.want)
			}
		}
	}, streaming)
}

func TestAnErrorWaitsForTheEndOfTheStream(t *testing.T) {
	// The archive is sent in 1 KiB chunks and is much larger than the flow-control
	// windows. If a server answers early, Argo CD's sender fails with EOF.
	const incompressible = 3 << 20
	onEach(t, func(t *testing.T, s subject) {
		outside, err := repositoryOf(t, tree.Files{"noise": string(pseudoRandom(incompressible))}).Pack()
		if err != nil {
			t.Fatal(err)
		}
		outside.Metadata.GetMetadata().AppRelPath = "../outside"
		stream, err := s.dial(t, streaming).Stream(within(t, callWithin), client.Generate)
		if err != nil {
			t.Fatal(err)
		}
		for i, message := range outside.Messages() {
			if err := stream.SendMsg(message); err != nil {
				t.Fatalf("message %d of %d: expected to send all of them, got %v", i, len(outside.Chunks)+1, err)
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		refused(t, s, stream.RecvMsg(&plugins.ManifestResponse{}), codes.Unknown, "illegal appPath: out of workDir bound")
	}, streaming)
}

func TestHowAnArchiveIsCutDoesNotMatter(t *testing.T) {
	metadata := client.Metadata(".", client.Sum(appArchive))
	withEmpty := []client.Message{metadata, client.Chunk(nil)}
	for _, chunk := range client.Chunks(appArchive, 10) {
		withEmpty = append(withEmpty, chunk, client.Chunk(nil))
	}
	large := tree.Archive(tree.Entry{Name: "app.yaml", Body: "kind: App\n"}, tree.Entry{Name: "noise", Body: string(pseudoRandom(5 << 20))})
	sized := func(bytes int64) []client.Message {
		whole := client.Whole(".", appArchive)
		whole[0].GetMetadata().Size_ = bytes
		return whole
	}
	cases := map[string][]client.Message{
		"a size below zero":    sized(-1),
		"a size that is wrong": sized(1),
		"a size of exabytes":   sized(math.MaxInt64),
		"one byte each":        append([]client.Message{metadata}, client.Chunks(appArchive, 1)...),
		"one piece":            append([]client.Message{metadata}, client.Chunks(appArchive, len(appArchive))...),
		"empty pieces between": withEmpty,
		"pieces of 4 MiB":      append([]client.Message{client.Metadata(".", client.Sum(large))}, client.Chunks(large, 4<<20)...),
	}
	onEach(t, func(t *testing.T, s subject) {
		for name, messages := range cases {
			t.Run(name, func(t *testing.T) {
				reply, err := s.raw(t, streaming, client.Generate, messages...)
				if err != nil {
					t.Fatalf("expected manifests, got the error %v", err)
				}
				rendered(t, reply.(*plugins.ManifestResponse).GetManifests(), nil, `{"kind":"App"}`)
			})
		}
	}, streaming)
}

// pseudoRandom is incompressible data that is equal in every run.
func pseudoRandom(size int) []byte {
	noise := make([]byte, size)
	state := uint64(0x9e3779b97f4a7c15)
	for i := range noise {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		noise[i] = byte(state >> 32)
	}
	return noise
}
