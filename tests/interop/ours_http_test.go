package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"
	"cmp-supervisor/tests/interop/internal/wait"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// largestPage is the largest number of bytes read of a page.
const largestPage = 16 << 20

// page gets one page of the supervisor's HTTP server.
func page(t *testing.T, s subject, path string) (int, string) {
	t.Helper()
	browser := http.Client{Timeout: callWithin}
	response, err := browser.Get("http://" + s.Server.(*sut.Ours).HTTP + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, largestPage))
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestOursIsAliveAndReady(t *testing.T) {
	s := ours(t, plugin.Shell("cat", "true"))
	// A socket answers some milliseconds before the supervisor is told so.
	until := time.Now().Add(callWithin)
	for _, path := range []string{"/livez", "/readyz"} {
		code, body := page(t, s, path)
		for code != http.StatusOK && time.Now().Before(until) {
			time.Sleep(5 * time.Millisecond)
			code, body = page(t, s, path)
		}
		if code != http.StatusOK {
			t.Errorf("%s: expected 200, got %d %q", path, code, body)
		}
	}
}

func TestOursCountsWhatHappened(t *testing.T) {
	const deadline = 500 * time.Millisecond
	good := plugin.Definition{Name: "counted", Version: "v1", Spec: "generate: {command: [cat, app.yaml]}\ndiscover: {fileName: app.yaml}"}
	bad := plugin.Shell("failing", "exit 3")
	s := ours(t, good, bad, sleeping)
	repo := repositoryOf(t, tree.Files{"app.yaml": "kind: App\n"})
	for range 2 {
		got, err := s.generate(t, good, repo)
		rendered(t, got, err, `{"kind":"App"}`)
	}
	matched(t, s, good, repo, true)
	_, _ = s.generate(t, bad, repo)                                // Judged elsewhere.
	_, _ = s.dial(t, sleeping).Generate(within(t, deadline), repo) // Judged elsewhere.

	counts := []struct {
		metric string
		labels map[string]string
		want   float64
	}{
		{"argocd_cmp_requests_total", map[string]string{"plugin": good.FullName(), "method": "generate", "outcome": "ok"}, 2},
		{"argocd_cmp_requests_total", map[string]string{"plugin": good.FullName(), "method": "match", "outcome": "ok"}, 1},
		{"argocd_cmp_requests_total", map[string]string{"plugin": bad.FullName(), "method": "generate", "outcome": "exit_nonzero"}, 1},
		{"argocd_cmp_plugin_up", map[string]string{"plugin": good.FullName()}, 1},
	}
	// A request is counted after its answer.
	err := wait.Until(callWithin, "the metrics", func() error {
		families := metrics(t, s)
		for _, name := range []string{"argocd_cmp_build_info", "argocd_cmp_request_duration_seconds", "argocd_cmp_request_phase_duration_seconds",
			"argocd_cmp_requests_in_flight", "argocd_cmp_stream_received_bytes", "argocd_cmp_timeouts_total"} {
			if families[name] == nil {
				return fmt.Errorf("expected the metric %s, got none", name)
			}
		}
		for _, this := range counts {
			if got := value(families[this.metric], this.labels); got != this.want {
				return fmt.Errorf("expected %s%v to be %v, got %v; the page has %v", this.metric, this.labels, this.want, got, families[this.metric])
			}
		}
		if !strings.Contains(fmt.Sprint(families), "argocd_cmp_config_") {
			return errors.New("expected a metric about reloads, got none")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func metrics(t *testing.T, s subject) map[string]*dto.MetricFamily {
	t.Helper()
	code, body := page(t, s, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("/metrics: expected 200, got %d %q", code, body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("/metrics cannot be parsed: %v\n%s", err, body)
	}
	return families
}

// value is the sum of the samples that have at least these labels.
func value(family *dto.MetricFamily, labels map[string]string) float64 {
	var sum float64
	for _, metric := range family.GetMetric() {
		found := 0
		for _, label := range metric.GetLabel() {
			if want, asked := labels[label.GetName()]; asked && want == label.GetValue() {
				found++
			}
		}
		if found == len(labels) {
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetUntyped().GetValue()
		}
	}
	return sum
}

// decode reads a manifest, which is JSON.
func decode(t *testing.T, manifest string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(manifest), into); err != nil {
		t.Fatalf("expected JSON, got %q: %v", manifest, err)
	}
}
