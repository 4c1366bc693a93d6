// Command bench measures argocd-cmp-server and cmp-supervisor in one run on the
// same machine, through Argo CD's own client, and prints a table with ratios.
//
//	CMP_SUPERVISOR_BIN=/path/to/cmp-supervisor go run ./cmd/bench
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/sut"

	"github.com/sirupsen/logrus"
)

// settings are the number and size of the measurements.
type settings struct {
	ours, isolation, base string
	// earlier is another cmp-supervisor to compare ours with; empty for none.
	earlier              string
	rounds, small, large int
	// only is the label of the one step to measure, for profilers; empty measures everything.
	only string
	// peer measures argocd-cmp-server too.
	peer bool
	// overhead compares cmp-supervisor with and without observation, and nothing else.
	overhead bool
	// growth measures curves, and nothing else.
	growth bool
}

func main() {
	proc.BeGuard()
	var s settings
	flag.StringVar(&s.ours, "ours", os.Getenv("CMP_SUPERVISOR_BIN"), "path of cmp-supervisor; empty measures the peer alone")
	flag.StringVar(&s.earlier, "earlier", "", "path of another cmp-supervisor to compare with, as of an earlier commit")
	flag.StringVar(&s.isolation, "isolation", os.Getenv("CMP_SUPERVISOR_ISOLATION"), "value of --isolation; empty leaves the choice to cmp-supervisor")
	flag.StringVar(&s.base, "dir", proc.FastDirectory(), "directory of repositories and work directories")
	flag.IntVar(&s.rounds, "rounds", 3, "number of rounds, in which the servers take turns")
	flag.IntVar(&s.small, "small", 200, "calls per round with the small application")
	flag.IntVar(&s.large, "large", 5, "calls per round with the large repository")
	flag.StringVar(&s.only, "only", "", `measure nothing but the calls of this label, as "generate large", for a profiler`)
	flag.BoolVar(&s.peer, "peer", true, "measure argocd-cmp-server too")
	flag.BoolVar(&s.overhead, "overhead", false, "measure only what metrics, log and traces cost a small rendering")
	flag.BoolVar(&s.growth, "growth", false, "measure only how times and memory grow with plugins, archives, manifests and clients")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(s settings) error {
	// Argo CD's client also logs each error that it returns.
	logrus.SetOutput(io.Discard)
	session, err := proc.StartRun(s.base)
	if err != nil {
		return err
	}
	defer session.End()
	temporary := filepath.Join(session.Directory, "tmp")
	if err := os.Mkdir(temporary, 0o755); err != nil {
		return err
	}
	if err := os.Setenv("TMPDIR", temporary); err != nil {
		return err
	}
	if s.growth {
		return growth(s, session.Directory)
	}
	loads, err := newLoads(session.Directory)
	if err != nil {
		return err
	}
	if s.overhead {
		return overhead(s, loads, session.Directory)
	}
	contestants, err := line(s, session.Directory)
	if err != nil {
		return err
	}
	fmt.Printf("small: %d files, %s packed · large: %d files, %s unpacked, %s packed · in %s\n",
		loads.small.files, size(loads.small.packed.Size), loads.large.files, size(loads.large.unpacked), size(loads.large.packed.Size), s.base)
	fmt.Printf("%d rounds of %d small and %d large calls; times in ms, from the call's first message to its answer\n\n", s.rounds, s.small, s.large)
	results := make([]*result, len(contestants))
	for i, c := range contestants {
		if s.only != "" {
			results[i] = newResult()
			continue
		}
		if results[i], err = idle(c); err != nil {
			return err
		}
	}
	if err := race(s, loads, contestants, results); err != nil {
		return err
	}
	printTable(os.Stdout, s, contestants, results)
	loads.alone.print(os.Stdout)
	if s.ours == "" {
		fmt.Println("\ncmp-supervisor was not measured: set CMP_SUPERVISOR_BIN or -ours to its path.")
	}
	return nil
}

// uidsOfEarlier are as many UIDs as another cmp-supervisor has by default, but others.
const uidsOfEarlier = "70000-70477"

// contestant is one server to measure.
type contestant struct {
	name  string
	start starter
}

// line is the list of contestants: the peer, and the others whose paths are given.
func line(s settings, directory string) ([]contestant, error) {
	module, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	built, err := sut.Build(module, "argocd-cmp-server")
	if err != nil {
		return nil, errors.Join(err, errors.New("run this in tests/interop"))
	}
	binary, err := sut.Reachable(built, directory)
	if err != nil {
		return nil, err
	}
	var all []contestant
	if s.peer {
		all = append(all, contestant{"peer", peerStarter(binary, directory)})
	}
	ours := sut.Options{Binary: s.ours, Isolation: s.isolation}
	// With the same UIDs, the one that starts last would have fewer leases.
	earlier := sut.Options{Binary: s.earlier, Isolation: s.isolation, Arguments: []string{"--uid-range", uidsOfEarlier}}
	if s.earlier != "" {
		all = append(all, contestant{"earlier", oursStarter(earlier, directory)})
	}
	if s.ours != "" {
		all = append(all, contestant{"ours", oursStarter(ours, directory)})
	}
	if len(all) == 0 {
		return nil, errors.New("there is nothing to measure: set CMP_SUPERVISOR_BIN or -ours to a path, or leave out -peer=false")
	}
	return all, nil
}

func size(bytes int) string {
	const kilo, mega = 1e3, 1e6
	if bytes < mega {
		return fmt.Sprintf("%.1f kB", float64(bytes)/kilo)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/mega)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
