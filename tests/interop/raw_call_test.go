package interop

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Results of a call whose headers Argo CD's client does not send.
const (
	accepted = "accepted"
	reset    = "stream reset"
	closed   = "connection closed"
)

// rawCall is a CheckPluginConfiguration. Its headers replace those of Argo CD's client; an
// empty name removes the one with the value as its name.
type rawCall struct {
	name     string
	header   [2]string
	messages int
	trailers bool
}

func (r rawCall) headers() []hpack.HeaderField {
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
		{Name: ":path", Value: "/plugin.ConfigManagementPluginService/CheckPluginConfiguration"},
		{Name: ":authority", Value: "localhost"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}
	name, value := r.header[0], r.header[1]
	at := slices.IndexFunc(fields, func(f hpack.HeaderField) bool { return f.Name == name || name == "" && f.Name == value })
	switch {
	case name == "" && at >= 0:
		return slices.Delete(fields, at, at+1)
	case name == "":
		return fields
	case at >= 0:
		fields[at].Value = value
		return fields
	}
	return append(fields, hpack.HeaderField{Name: name, Value: value})
}

// make makes the call on a connection of its own. The result is accepted, reset, closed, or
// the code and the text of the error.
func (r rawCall) make(t *testing.T, socket string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(callWithin))
	framer := http2.NewFramer(conn, conn)
	framer.AllowIllegalWrites = true
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	write := func(isEnd bool, fields ...hpack.HeaderField) {
		block.Reset()
		for _, field := range fields {
			encoder.WriteField(field)
		}
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: isEnd})
	}
	io.WriteString(conn, http2.ClientPreface)
	framer.WriteSettings()
	write(false, r.headers()...)
	framer.WriteData(1, !r.trailers, make([]byte, 5*max(r.messages, 1)))
	if r.trailers {
		write(true, hpack.HeaderField{Name: "x", Value: "y"})
	}
	return resultOf(framer)
}

func resultOf(framer *http2.Framer) string {
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return closed
		}
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame:
			return reset
		case *http2.GoAwayFrame:
			return closed
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				framer.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			var code, text string
			for _, field := range frame.Fields {
				switch field.Name {
				case "grpc-status":
					code = field.Value
				case "grpc-message":
					text = unescaped(field.Value)
				}
			}
			if code == "0" {
				return accepted
			} else if code != "" {
				return code + " " + text
			}
		}
	}
}

// unescaped decodes the percent encoding of a grpc-message.
func unescaped(text string) string {
	decoded, err := url.PathUnescape(text)
	if err != nil {
		return text
	}
	return decoded
}

func TestAMalformedTimeoutIsRefused(t *testing.T) {
	const malformed = "13 malformed grpc-timeout: "
	cases := map[string]string{
		"":           malformed + `transport: timeout string is too short: ""`,
		"S":          malformed + `transport: timeout string is too short: "S"`,
		"123456789S": malformed + `transport: timeout string is too long: "123456789S"`,
		"1X":         malformed + `transport: timeout unit is not recognized: "1X"`,
		"-1S":        malformed + `strconv.ParseUint: parsing "-1": invalid syntax`,
		"1.5S":       malformed + `strconv.ParseUint: parsing "1.5": invalid syntax`,
		"99999999H":  accepted,
	}
	onEach(t, func(t *testing.T, s subject) {
		for value, want := range cases {
			call := rawCall{header: [2]string{"grpc-timeout", value}}
			if got := call.make(t, s.Socket(streaming)); got != want {
				t.Errorf("%q: expected %s, got %s", value, want, got)
			}
		}
	}, streaming)
}

func TestOursJudgesHeadersAsDocumented(t *testing.T) {
	calls := []rawCall{
		{name: "method", header: [2]string{":method", "PUT"}},
		{name: "content type", header: [2]string{"content-type", "text/html"}},
		{name: "query", header: [2]string{":path", "/plugin.ConfigManagementPluginService/CheckPluginConfiguration?x=1"}},
		{name: "two messages", messages: 2},
		{name: "base64", header: [2]string{"x-bin", "!"}},
		{name: "trailers", trailers: true},
	}
	stricter := []rawCall{
		{name: "te", header: [2]string{"te", "gzip"}},
		{name: "no scheme", header: [2]string{"", ":scheme"}},
		{name: "empty authority", header: [2]string{":authority", ""}},
		{name: "content length", header: [2]string{"content-length", "7"}},
	}
	onEach(t, func(t *testing.T, s subject) {
		for _, call := range calls {
			if got := call.make(t, s.Socket(streaming)); (got == accepted) != s.isOurs() {
				t.Errorf("%s: %s", call.name, got)
			}
		}
		for _, call := range stricter {
			want := map[bool]string{true: reset, false: accepted}[s.isOurs()]
			if got := call.make(t, s.Socket(streaming)); got != want {
				t.Errorf("%s: expected %s, got %s", call.name, want, got)
			}
		}
		capital := rawCall{header: [2]string{"X-Capital", "y"}}
		want := map[bool]string{true: closed, false: reset}[s.isOurs()]
		if got := capital.make(t, s.Socket(streaming)); got != want {
			t.Errorf("a capital letter in a name: expected %s, got %s", want, got)
		}
	}, streaming)
}
