package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	"google.golang.org/grpc"
)

// service is the service's name in the path of every method.
const service = "/plugin.ConfigManagementPluginService/"

// Method is one of the client-streaming calls.
type Method struct {
	Name string
	// StreamPrefix is the beginning of error texts about the stream.
	StreamPrefix string
	reply        func() any
}

// Generate, Match and Parameters are the three calls that take an archive.
var (
	Generate   = Method{"GenerateManifest", "generate manifest error receiving stream: ", func() any { return &plugins.ManifestResponse{} }}
	Match      = Method{"MatchRepository", "match repository error receiving stream: ", func() any { return &plugins.RepositoryResponse{} }}
	Parameters = Method{"GetParametersAnnouncement", "parameters announcement error receiving stream: ", func() any { return &plugins.ParametersAnnouncementResponse{} }}
)

// Message is one message of a request stream.
type Message = *plugins.AppStreamRequest

// Metadata is a first message.
func Metadata(path, checksum string, env ...*plugins.EnvEntry) Message {
	return &plugins.AppStreamRequest{Request: &plugins.AppStreamRequest_Metadata{
		Metadata: &plugins.ManifestRequestMetadata{AppName: "app", AppRelPath: path, Checksum: checksum, Env: env},
	}}
}

// Chunk is a piece of an archive.
func Chunk(piece []byte) Message {
	return &plugins.AppStreamRequest{Request: &plugins.AppStreamRequest_File{File: &plugins.File{Chunk: piece}}}
}

// Neither is a message with nothing in its oneof.
func Neither() Message { return &plugins.AppStreamRequest{} }

// Unreadable is a message that is no protobuf.
func Unreadable() Message { return &plugins.AppStreamRequest{XXX_unrecognized: []byte{0xff}} }

// Chunks cuts an archive into pieces.
func Chunks(archive []byte, size int) []Message {
	var chunks []Message
	for len(archive) > 0 {
		n := min(size, len(archive))
		chunks = append(chunks, Chunk(archive[:n]))
		archive = archive[n:]
	}
	return chunks
}

// Sum is the checksum as a client states it.
func Sum(archive []byte) string {
	sum := sha256.Sum256(archive)
	return hex.EncodeToString(sum[:])
}

// Whole is a correct request for an archive.
func Whole(path string, archive []byte, env ...*plugins.EnvEntry) []Message {
	const chunk = 1024
	return append([]Message{Metadata(path, Sum(archive), env...)}, Chunks(archive, chunk)...)
}

// Stream opens a call and sends the messages, without half-closing. A server
// that has answered already is not an error: its answer is what is wanted.
func (c *Client) Stream(ctx context.Context, method Method, messages ...Message) (grpc.ClientStream, error) {
	stream, err := c.Conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, service+method.Name, grpc.MaxCallSendMsgSize(math.MaxInt32))
	if err != nil {
		return nil, err
	}
	return stream, Send(stream, messages...)
}

// Send sends these messages, as far as the server wants them.
func Send(stream grpc.ClientStream, messages ...Message) error {
	for i, message := range messages {
		if err := stream.SendMsg(message); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("cannot send message %d: %w", i, err)
		}
	}
	return nil
}

// Raw makes a call with exactly these messages and returns the reply.
func (c *Client) Raw(ctx context.Context, method Method, messages ...Message) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Stream(ctx, method, messages...)
	if err != nil {
		return nil, err
	}
	return Reply(stream, method)
}

// Reply ends the messages of a call and returns its reply.
func Reply(stream grpc.ClientStream, method Method) (any, error) {
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	reply := method.reply()
	if err := stream.RecvMsg(reply); err != nil {
		return nil, err
	}
	return reply, nil
}

// Packed is a request that was packed in advance, so that only the call is
// measured.
type Packed struct {
	Metadata Message
	Chunks   []Message
	Size     int
}

// Messages are all messages of the request.
func (p Packed) Messages() []Message { return append([]Message{p.Metadata}, p.Chunks...) }

// Fresh is the same request with extra bytes after the archive's end. The bytes
// are not read, but the archive's checksum is new to every server.
func (p Packed) Fresh() []Message {
	number := binary.BigEndian.AppendUint64(nil, fresh.Add(1))
	sum := sha256.New()
	for _, chunk := range p.Chunks {
		sum.Write(chunk.GetFile().GetChunk())
	}
	sum.Write(number)
	stated := p.Metadata.GetMetadata()
	metadata := Metadata(stated.GetAppRelPath(), hex.EncodeToString(sum.Sum(nil)), stated.GetEnv()...)
	metadata.GetMetadata().Size_ = stated.GetSize_() + int64(len(number))
	return append(append([]Message{metadata}, p.Chunks...), Chunk(number))
}

// fresh counts the archives that were changed.
var fresh atomic.Uint64

// Pack builds the archive and splits it into chunks with Argo CD's code.
func (a App) Pack() (Packed, error) {
	var sink recorder
	if err := a.send(context.Background(), &sink); err != nil {
		return Packed{}, err
	}
	size := 0
	for _, chunk := range sink.sent[1:] {
		size += len(chunk.GetFile().GetChunk())
	}
	return Packed{Metadata: sink.sent[0], Chunks: sink.sent[1:], Size: size}, nil
}

// recorder is a stream that records the messages.
type recorder struct{ sent []Message }

func (r *recorder) Send(message Message) error {
	// Copy, because the sender reuses one buffer.
	if file := message.GetFile(); file != nil {
		message = Chunk(bytes.Clone(file.GetChunk()))
	}
	r.sent = append(r.sent, message)
	return nil
}
