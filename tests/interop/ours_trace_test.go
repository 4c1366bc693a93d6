package interop

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/otlp"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/wait"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

// spansWithin is the time limit for all spans to arrive; the repo-server sends them
// every 5 s.
const spansWithin = time.Minute

// traced prints the trace that its command gets.
var traced = plugin.Shell("traced", `printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: traced}\ntext: "%s"\n' "$TRACEPARENT"`)

// The services that send spans, and the spans of one rendering.
const (
	serviceOfRepoServer = "argocd-repo-server"
	serviceOfOurs       = "argocd-cmp-server"
	spanOfRendering     = "repository.RepoServerService/GenerateManifest"
	spanOfCall          = "plugin.ConfigManagementPluginService/GenerateManifest"
)

// phases are the spans below the call.
var phases = []string{"open", "queue", "cmp.ReceiveRepoStream", "generate", "split"}

func TestOursContinuesTheTraceOfTheRepoServer(t *testing.T) {
	options := needsOurs(t)
	cache := redis(t)
	url := gitRepository(t, fleet)
	collector, err := otlp.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(collector.Stop)
	options.Arguments = []string{"--otlp-address", collector.Address}
	server, err := sut.StartOurs(options, scratch, traced)
	if err != nil {
		t.Fatal(err)
	}
	s := stopped(t, server)
	c := repoServer(t, s, cache, "--otlp-address", collector.Address)
	got, err := manifest(t, c, url, "apps/named", &v1alpha1.ApplicationSourcePlugin{Name: traced.FullName()})
	if err != nil || len(got.GetManifests()) != 1 {
		t.Fatalf("expected one manifest, got %v and the error %v", got.GetManifests(), err)
	}

	var tree chain
	err = wait.Until(spansWithin, "the spans of the rendering", func() error {
		var missing error
		tree, missing = chainOf(collector.Spans())
		return missing
	})
	if err != nil {
		t.Fatalf("%v: %s", err, otlp.Describe(collector.Spans()))
	}
	follows(t, tree.client, tree.rendering)
	follows(t, tree.call, tree.client)
	for _, phase := range tree.phases {
		follows(t, phase, tree.call)
	}
	generate := tree.phases[3]
	want := fmt.Sprintf("00-%s-%s-01", hex.EncodeToString(tree.rendering.GetTraceId()), hex.EncodeToString(generate.GetSpanId()))
	if !strings.Contains(got.GetManifests()[0], want) {
		t.Fatalf("expected the command to get TRACEPARENT=%s, got %s", want, got.GetManifests()[0])
	}
}

// chain is the spans of one rendering, from the repo-server's to those of our phases.
type chain struct {
	rendering, client, call *trace.Span
	phases                  []*trace.Span
}

// chainOf finds the spans by service, name and kind, but not by trace and parent.
func chainOf(spans []otlp.Span) (found chain, missing error) {
	one := func(service, name string, kind trace.Span_SpanKind) *trace.Span {
		for _, each := range spans {
			if each.Service == service && each.GetName() == name && each.GetKind() == kind {
				return each.Span
			}
		}
		missing = fmt.Errorf("there is no span %s of %s", name, service)
		return nil
	}
	found.rendering = one(serviceOfRepoServer, spanOfRendering, trace.Span_SPAN_KIND_SERVER)
	found.client = one(serviceOfRepoServer, spanOfCall, trace.Span_SPAN_KIND_CLIENT)
	found.call = one(serviceOfOurs, spanOfCall, trace.Span_SPAN_KIND_SERVER)
	for _, phase := range phases {
		found.phases = append(found.phases, one(serviceOfOurs, phase, trace.Span_SPAN_KIND_INTERNAL))
	}
	return found, missing
}

// follows checks that a span is a child of another one in the same trace.
func follows(t *testing.T, child, parent *trace.Span) {
	t.Helper()
	if hex.EncodeToString(child.GetTraceId()) != hex.EncodeToString(parent.GetTraceId()) {
		t.Errorf("%s is in trace %x, and %s in %x", child.GetName(), child.GetTraceId(), parent.GetName(), parent.GetTraceId())
	}
	if hex.EncodeToString(child.GetParentSpanId()) != hex.EncodeToString(parent.GetSpanId()) {
		t.Errorf("the parent of %s is %x, and %s is %x", child.GetName(), child.GetParentSpanId(), parent.GetName(), parent.GetSpanId())
	}
}
