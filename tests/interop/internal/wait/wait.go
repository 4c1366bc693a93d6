// Package wait polls for conditions, so that tests need no fixed sleeps.
package wait

import (
	"errors"
	"fmt"
	"time"
)

// interval is the time between two checks of a condition. It is short compared
// with all limits, and long enough for polling to cost nothing.
const interval = 5 * time.Millisecond

// ErrNever means that more waiting is useless, if the check wraps it.
var ErrNever = errors.New("the condition can no longer become true")

// Until returns as soon as the check succeeds. After the limit, it returns an
// error with the name of the condition and the last error.
func Until(limit time.Duration, what string, look func() error) error {
	deadline := time.Now().Add(limit)
	for {
		wrong := look()
		if wrong == nil {
			return nil
		}
		if errors.Is(wrong, ErrNever) {
			return fmt.Errorf("waited for %s: %w", what, wrong)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %s for %s: %w", limit, what, wrong)
		}
		time.Sleep(interval)
	}
}
