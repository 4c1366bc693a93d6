// Package wait polls for conditions, so that no test sleeps and hopes.
package wait

import (
	"errors"
	"fmt"
	"time"
)

// interval is how often a condition is looked at: short beside every limit in
// use, long enough that polling costs nothing.
const interval = 5 * time.Millisecond

// ErrNever wrapped by a look says that waiting on is of no use.
var ErrNever = errors.New("it never will")

// Until returns as soon as the look finds nothing wrong. Past the limit it
// returns an error that names what was waited for and what was wrong last.
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
