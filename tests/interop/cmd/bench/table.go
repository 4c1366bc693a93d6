package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one line of the table, with a value for each contestant.
type row struct {
	label, unit string
	of          func(*result) float64
}

// rows are all lines. Smaller values are better, except for the rate.
func rows(s settings) []row {
	var calls []row
	for _, step := range steps(s, loads{}) {
		of := func(r *result) *samples { return r.calls[step.label] }
		calls = append(calls,
			row{step.label + ", p50", "ms", func(r *result) float64 { return milliseconds(of(r).percentile(50)) }},
			row{step.label + ", p99", "ms", func(r *result) float64 { return milliseconds(of(r).percentile(99)) }},
			row{step.label + ", CPU per call", "ms", func(r *result) float64 { return milliseconds(of(r).cpuPerCall()) }})
	}
	for _, crowd := range crowds(s, loads{}) {
		of := func(r *result) *rate { return r.together[crowd.label] }
		calls = append(calls,
			row{crowd.label, "calls/s", func(r *result) float64 { return of(r).perSecond() }},
			row{crowd.label + ", CPU per call", "ms", func(r *result) float64 { return milliseconds(of(r).cpuPerCall()) }})
	}
	if s.only != "" {
		return calls
	}
	return slices.Concat([]row{
		{"10 plugins, start until all answer", "ms", func(r *result) float64 { return milliseconds(r.ready) }},
		{"10 plugins, idle, processes", "", func(r *result) float64 { return float64(r.idleProcesses) }},
		{"10 plugins, idle, resident", "MB", func(r *result) float64 { return float64(r.idleRSS) / 1e6 }},
		{"10 plugins, idle, proportional", "MB", func(r *result) float64 { return float64(r.idlePSS) / 1e6 }},
	}, calls, []row{
		{"peak memory of all processes, shared pages once", "MB", func(r *result) float64 { return float64(r.peak) / 1e6 }},
	})
}

// percentile is the time that the given percentage of calls did not exceed.
func (s *samples) percentile(percent int) time.Duration {
	if len(s.times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.times))
	const hundred = 100
	rank := (len(sorted)*percent + hundred - 1) / hundred
	return sorted[rank-1]
}

func (s *samples) cpuPerCall() time.Duration {
	if len(s.times) == 0 {
		return 0
	}
	return s.cpu / time.Duration(len(s.times))
}

func (r *rate) perSecond() float64 { return float64(r.calls) / r.took.Seconds() }

func (r *rate) cpuPerCall() time.Duration { return r.cpu / time.Duration(r.calls) }

func printTable(out io.Writer, s settings, contestants []contestant, results []*result) {
	const padding = 2
	table := tabwriter.NewWriter(out, 0, 0, padding, ' ', 0)
	header := []string{"measured", "unit"}
	for _, c := range contestants {
		header = append(header, fmt.Sprintf("%10s", c.name))
	}
	for _, c := range contestants[1:] {
		header = append(header, fmt.Sprintf("%10s", c.name+"/"+contestants[0].name))
	}
	fmt.Fprintln(table, strings.Join(header, "\t"))
	for _, each := range rows(s) {
		cells := []string{each.label, each.unit}
		for _, r := range results {
			cells = append(cells, fmt.Sprintf("%10.2f", each.of(r)))
		}
		for _, r := range results[1:] {
			cells = append(cells, fmt.Sprintf("%9.2f×", each.of(r)/each.of(results[0])))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	_ = table.Flush() // The table is the program's only output; nothing could report its loss.
}
