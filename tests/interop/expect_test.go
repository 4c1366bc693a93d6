package interop

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rendered checks a successful answer byte by byte.
func rendered(t *testing.T, got []string, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatalf("expected manifests %q, got the error %v", want, err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("expected manifests %q, got %q", want, got)
	}
}

// refused checks a failed call. The peer's text must be exactly the expected
// one; ours must contain it and may add to it.
func refused(t *testing.T, s subject, err error, code codes.Code, text string) {
	t.Helper()
	got := statusOf(t, err, code)
	whole := got.Message() == text
	if s.isOurs() {
		whole = strings.Contains(got.Message(), text)
	}
	if !whole || got.Code() != code {
		t.Fatalf("expected the error %v %q, got %v %q", code, text, got.Code(), got.Message())
	}
}

// refusedLike is like refused, for texts that contain the server's own paths.
// ANY in the pattern stands for any text.
func refusedLike(t *testing.T, s subject, err error, code codes.Code, pattern string) {
	t.Helper()
	got := statusOf(t, err, code)
	expression := strings.ReplaceAll(regexp.QuoteMeta(pattern), "ANY", "(?s:.*)")
	if !s.isOurs() {
		expression = "^" + expression + "$"
	}
	if !regexp.MustCompile(expression).MatchString(got.Message()) || got.Code() != code {
		t.Fatalf("expected the error %v %q, got %v %q", code, pattern, got.Code(), got.Message())
	}
}

func statusOf(t *testing.T, err error, want codes.Code) *status.Status {
	t.Helper()
	if err == nil {
		t.Fatalf("expected an error with code %v, got success", want)
	}
	got, isStatus := status.FromError(err)
	if !isStatus {
		t.Fatalf("expected the server's answer with code %v, got the client's own error %v", want, err)
	}
	return got
}
