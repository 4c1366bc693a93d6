package interop

import (
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/plugin"
)

// prompt is the time limit for a call that must not wait for anything.
const prompt = 5 * time.Second

// untilOut renders a manifest as soon as a daemon has left its parent.
const untilOut = `until [ -e out ]; do sleep 0.01; done; echo 'kind: App'`

func TestABackgroundProcessEndsWithTheCall(t *testing.T) {
	const attempts = 5
	cases := []plugin.Definition{
		plugin.Shell("obedient", `(touch out; sleep 300) >/dev/null 2>&1 & `+untilOut),
		plugin.Shell("stubborn", `(trap '' TERM; touch out; sleep 300; sleep 300) >/dev/null 2>&1 & `+untilOut),
	}
	onEach(t, func(t *testing.T, s subject) {
		for _, d := range cases {
			t.Run(d.Name, func(t *testing.T) {
				for range attempts {
					mark, app := marked(t)
					start := time.Now()
					got, err := s.generate(t, d, app)
					took := time.Since(start)
					rendered(t, got, err, `{"kind":"App"}`)
					gone(t, s, mark)
					if took < prompt {
						return
					}
					// A busy machine may take as long.
					t.Logf("the call took %s", took)
				}
				t.Errorf("expected one of %d calls not to wait for the daemon", attempts)
			})
		}
	}, cases...)
}

func TestABackgroundProcessThatHoldsTheOutputIsWaitedFor(t *testing.T) {
	// Nothing is written for longer than any server may take for a pause.
	d := plugin.Shell("late", `(sleep 0.3; echo 'late: true'; sleep 1.5; echo 'later: true') & echo 'kind: App'`)
	filter := plugin.Definition{Name: "filter", Spec: `generate: {command: [sh, -c, "(sleep 1.5; echo 'kind: Late') & exit 0"]}
discover: {find: {command: [sh, -c, "(sleep 1.5; echo app.yaml) & exit 0"]}}`}
	onEach(t, func(t *testing.T, s subject) {
		mark, app := marked(t)
		got, err := s.generate(t, d, app)
		rendered(t, got, err, `{"kind":"App","late":true,"later":true}`)
		gone(t, s, mark)
		matched(t, s, filter, app, true)
		got, err = s.generate(t, filter, app)
		rendered(t, got, err, `{"kind":"Late"}`)
	}, d, filter)
}

func TestAfterAnErrorNothingIsLeftEither(t *testing.T) {
	cases := []plugin.Definition{
		{Name: "generate", Spec: `generate: {command: [sh, -c, "sleep 300 >/dev/null 2>&1 & exit 1"]}`},
		{Name: "init", Spec: "init: {command: [sh, -c, 'sleep 300 >/dev/null 2>&1 & exit 1']}\ngenerate: {command: ['true']}"},
		plugin.Shell("suicide", `sleep 300 >/dev/null 2>&1 & kill -9 $$`),
	}
	onEach(t, func(t *testing.T, s subject) {
		for _, d := range cases {
			mark, app := marked(t)
			if got, err := s.generate(t, d, app); err == nil {
				t.Errorf("%s: expected an error, got %q", d.Name, got)
			}
			gone(t, s, mark)
		}
	}, cases...)
}
