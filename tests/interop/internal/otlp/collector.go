// Package otlp is a collector of traces, which keeps what it gets.
package otlp

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Collector keeps spans until it is stopped.
type Collector struct {
	collector.UnimplementedTraceServiceServer
	// Address is its host and port.
	Address string
	server  *grpc.Server
	lock    sync.Mutex
	spans   []Span
	// keep is false if spans are only counted.
	keep bool
}

// Span is a span with the name of its service.
type Span struct {
	*trace.Span
	Service string
}

// Listen starts a collector on the loopback interface that keeps all spans.
func Listen() (*Collector, error) { return listen(true) }

// Drain starts a collector that keeps no span.
func Drain() (*Collector, error) { return listen(false) }

func listen(keep bool) (*Collector, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Collector{Address: listener.Addr().String(), server: grpc.NewServer(), keep: keep}
	collector.RegisterTraceServiceServer(c.server, c)
	go func() {
		// It ends with Stop.
		_ = c.server.Serve(listener)
	}()
	return c, nil
}

// Stop closes all connections.
func (c *Collector) Stop() { c.server.Stop() }

// Export takes spans.
func (c *Collector) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	if !c.keep {
		return &collector.ExportTraceServiceResponse{}, nil
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, resource := range request.GetResourceSpans() {
		service := ""
		for _, attribute := range resource.GetResource().GetAttributes() {
			if attribute.GetKey() == "service.name" {
				service = attribute.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, Span{span, service})
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// Spans are all spans so far.
func (c *Collector) Spans() []Span {
	c.lock.Lock()
	defer c.lock.Unlock()
	return append([]Span(nil), c.spans...)
}

// Describe lists spans for a message.
func Describe(spans []Span) string {
	var text strings.Builder
	for _, span := range spans {
		fmt.Fprintf(&text, "\n%s: %s, %s, trace %x, span %x, parent %x", span.Service, span.GetName(), span.GetKind(), span.GetTraceId(), span.GetSpanId(), span.GetParentSpanId())
	}
	return text.String()
}
