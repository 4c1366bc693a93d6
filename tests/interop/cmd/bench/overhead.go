package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"cmp-supervisor/tests/interop/internal/otlp"
	"cmp-supervisor/tests/interop/internal/sut"
)

// scrapeEvery is the interval of scrapes; Prometheus' usual one is 15 to 60 s.
const scrapeEvery = time.Second

// The UIDs of the servers, beside those of other supervisors.
const firstUID, uidsOfEach = 62000, 40

// variant is cmp-supervisor with some ways to observe it.
type variant struct {
	name      string
	arguments []string
	scraped   bool
}

// variants begins with the one that the others are compared with.
func variants(collector string) []variant {
	silent, traces := []string{"--log-level", "error"}, []string{"--otlp-address", collector}
	return []variant{
		{"off", silent, false},
		{"off, again", silent, false},
		{"metrics, a scrape each second", silent, true},
		{"log, a line per request", []string{"--log-level", "info"}, false},
		{"traces, all sent", slices.Concat(silent, traces), false},
		{"all of these", slices.Concat([]string{"--log-level", "info"}, traces), true},
	}
}

// overhead compares small renderings with and without observation. The servers take
// turns in each round, and each ratio is of one round.
func overhead(s settings, l loads, directory string) (failure error) {
	if s.ours == "" {
		return errors.New("-overhead needs CMP_SUPERVISOR_BIN or -ours")
	}
	collector, err := otlp.Drain()
	if err != nil {
		return err
	}
	defer collector.Stop()
	all := variants(collector.Address)
	runners, measured := make([]*runner, len(all)), make([][]*samples, len(all))
	for i, v := range all {
		// The servers run at the same time, and need UIDs of their own.
		first := firstUID + i*uidsOfEach
		uids := fmt.Sprintf("%d-%d", first, first+uidsOfEach-1)
		options := sut.Options{Binary: s.ours, Isolation: s.isolation, Arguments: slices.Concat(v.arguments, []string{"--uid-range", uids})}
		r, err := newRunner(contestant{v.name, oursStarter(options, directory)}, newResult())
		if err != nil {
			return err
		}
		defer func() { failure = errors.Join(failure, r.close()) }()
		runners[i] = r
	}
	step := steps(s, l)[0]
	for round := range s.rounds {
		for turn := range all {
			// Each round begins with another one, so that none is always first.
			i := (round + turn) % len(all)
			got, err := observed(runners[i], all[i], step)
			if err != nil {
				return err
			}
			measured[i] = append(measured[i], got)
		}
	}
	printOverhead(s, all, measured)
	return nil
}

// observed measures one turn.
func observed(r *runner, v variant, step step) (*samples, error) {
	r.result = newResult()
	if v.scraped {
		stop, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- scrape(r.server, stop) }()
		err := r.measure(step)
		close(stop)
		return r.result.calls[step.label], errors.Join(err, <-ended)
	}
	err := r.measure(step)
	return r.result.calls[step.label], err
}

// scrape reads the metrics as Prometheus does, until it is stopped.
func scrape(server sut.Server, stop <-chan struct{}) error {
	ours, is := server.(*sut.Ours)
	if !is {
		return errors.New("only cmp-supervisor has metrics")
	}
	ticker := time.NewTicker(scrapeEvery)
	defer ticker.Stop()
	for {
		answer, err := http.Get("http://" + ours.HTTP + "/metrics")
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-ticker.C:
		}
	}
}

func printOverhead(s settings, all []variant, measured [][]*samples) {
	median := func(one *samples) float64 { return milliseconds(one.percentile(50)) }
	cpu := func(one *samples) float64 { return milliseconds(one.cpuPerCall()) }
	fmt.Printf("generate small: %d rounds of %d calls; ratios to the first line in the same round: median (least to most)\n\n", s.rounds, s.small)
	const padding = 2
	table := tabwriter.NewWriter(os.Stdout, 0, 0, padding, ' ', 0)
	fmt.Fprintln(table, strings.Join([]string{"observed by", "p50 in ms", "p50", "CPU in ms", "CPU per call"}, "\t"))
	for i, v := range all {
		cells := []string{v.name}
		for _, of := range []func(*samples) float64{median, cpu} {
			var values, ratios []float64
			for round, one := range measured[i] {
				values = append(values, of(one))
				ratios = append(ratios, of(one)/of(measured[0][round]))
			}
			slices.Sort(values)
			slices.Sort(ratios)
			last := len(ratios) - 1
			cells = append(cells, fmt.Sprintf("%.2f", values[last/2]), fmt.Sprintf("%.2f× (%.2f to %.2f)", ratios[last/2], ratios[0], ratios[last]))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	_ = table.Flush() // The table is the program's only output; nothing could report its loss.
}
