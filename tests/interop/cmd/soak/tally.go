package main

import (
	"slices"
	"time"
)

// kept is the number of errors that are kept of each kind.
const kept = 5

// tally counts the outcomes of requests by kind.
type tally struct {
	took   map[string][]time.Duration
	failed map[string]int
	errors map[string][]string
}

func newTally() *tally {
	return &tally{map[string][]time.Duration{}, map[string]int{}, map[string][]string{}}
}

func (t *tally) add(o outcome) {
	t.took[o.kind] = append(t.took[o.kind], o.took)
	if o.err == nil {
		return
	}
	t.failed[o.kind]++
	if len(t.errors[o.kind]) < kept {
		t.errors[o.kind] = append(t.errors[o.kind], o.err.Error())
	}
}

func (t *tally) join(other *tally) {
	for kind, took := range other.took {
		t.took[kind] = append(t.took[kind], took...)
		t.failed[kind] += other.failed[kind]
		t.errors[kind] = append(t.errors[kind], other.errors[kind]...)
	}
}

// line is the result of one kind. Times are in milliseconds.
type line struct {
	Requests   int      `json:"requests"`
	Unexpected int      `json:"unexpected"`
	P50        int64    `json:"p50"`
	P99        int64    `json:"p99"`
	Max        int64    `json:"max"`
	Errors     []string `json:"errors"`
}

// result is the program's output.
type result struct {
	Requests   int             `json:"requests"`
	Unexpected int             `json:"unexpected"`
	Seconds    float64         `json:"seconds"`
	Kinds      map[string]line `json:"kinds"`
}

func (t *tally) summary(took time.Duration) result {
	all := result{Seconds: took.Seconds(), Kinds: map[string]line{}}
	for kind, times := range t.took {
		slices.Sort(times)
		at := func(percent int) int64 {
			const hundred = 100
			return times[(len(times)-1)*percent/hundred].Milliseconds()
		}
		failed := t.failed[kind]
		all.Kinds[kind] = line{len(times), failed, at(50), at(99), at(100), t.errors[kind]}
		all.Requests += len(times)
		all.Unexpected += failed
	}
	return all
}
