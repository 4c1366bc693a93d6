package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/sut"
)

// callWithin is the time limit for every call.
const callWithin = time.Minute

// idlePlugins is the number of plugins of an idle server.
const idlePlugins = 10

// sampleEvery is the interval at which memory is measured. Measuring takes
// CPU time, so times are not measured in the same run.
const sampleEvery = 10 * time.Millisecond

// memoryCalls is the number of large calls during which memory is measured.
const memoryCalls = 4

// result is the measurements of one contestant.
type result struct {
	ready         time.Duration
	idleRSS       int64
	idlePSS       int64
	idleProcesses int
	// calls are the measurements of each step, by its label.
	calls map[string]*samples
	// together are the rates of clients at the same time, by label.
	together map[string]*rate
	peak     int64
}

func newResult() *result {
	return &result{calls: map[string]*samples{}, together: map[string]*rate{}}
}

// samples are the times of single calls, and the CPU time of all calls.
type samples struct {
	times []time.Duration
	cpu   time.Duration
}

// rate is the number of calls per second.
type rate struct {
	calls int
	took  time.Duration
	cpu   time.Duration
}

// starter starts a server and waits until it answers.
type starter func(...plugin.Definition) (sut.Server, error)

func peerStarter(binary, directory string) starter {
	return func(p ...plugin.Definition) (sut.Server, error) { return sut.StartPeer(binary, directory, p...) }
}

func oursStarter(options sut.Options, directory string) starter {
	return func(p ...plugin.Definition) (sut.Server, error) { return sut.StartOurs(options, directory, p...) }
}

// idle measures a server with many plugins and no calls.
func idle(c contestant) (got *result, failure error) {
	plugins := make([]plugin.Definition, idlePlugins)
	for i := range plugins {
		plugins[i] = plugin.Definition{Name: fmt.Sprintf("idle-%d", i), Spec: measured.Spec}
	}
	start := time.Now()
	server, err := c.start(plugins...)
	if err != nil {
		return nil, err
	}
	defer func() { failure = errors.Join(failure, server.Stop()) }()
	got = newResult()
	got.ready = time.Since(start)
	processes := server.Processes()
	got.idleProcesses = len(processes)
	got.idleRSS = proc.Memory(processes, "VmRSS")
	got.idlePSS = proc.ProportionalMemory(processes)
	return got, nil
}

// race lets the contestants take turns, and another one begin each round, so that
// other load on the machine affects all of them.
func race(s settings, l loads, contestants []contestant, results []*result) (failure error) {
	runners := make([]*runner, len(contestants))
	for i, c := range contestants {
		r, err := newRunner(c, results[i])
		if err != nil {
			return err
		}
		defer func() { failure = errors.Join(failure, r.close()) }()
		runners[i] = r
	}
	for round := range s.rounds {
		first := round % len(runners)
		turns := slices.Concat(runners[first:], runners[:first])
		if err := l.alone.measure(s.small); err != nil {
			return err
		}
		for _, step := range steps(s, l) {
			for _, r := range turns {
				if err := r.measure(step); err != nil {
					return err
				}
			}
		}
		for _, crowd := range crowds(s, l) {
			for _, r := range turns {
				if err := r.together(crowd); err != nil {
					return err
				}
			}
		}
	}
	if s.only != "" {
		return nil
	}
	for _, r := range runners {
		if err := r.memory(l.large); err != nil {
			return err
		}
	}
	return nil
}

// runner is a contestant's running server.
type runner struct {
	server               sut.Server
	named, glob, reading *client.Client
	result               *result
	contestant           string
}

func newRunner(c contestant, into *result) (*runner, error) {
	server, err := c.start(measured, globbed, sliced, reading)
	if err != nil {
		return nil, err
	}
	r := &runner{server: server, result: into, contestant: c.name}
	if r.named, err = dial(server, measured); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	if r.glob, err = dial(server, globbed); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	if r.reading, err = dial(server, reading); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return r, nil
}

func dial(server sut.Server, d plugin.Definition) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	return client.Dial(ctx, server.Socket(d))
}

func (r *runner) close() error {
	r.named.Close()
	r.glob.Close()
	r.reading.Close()
	return r.server.Stop()
}

// step is one kind of call, repeated a number of times.
type step struct {
	label  string
	client func(*runner) *client.Client
	method client.Method
	load   load
	calls  int
	// fresh changes each archive, so that no answer comes from a cache.
	fresh bool
}

// steps are the measurements of each round.
func steps(s settings, l loads) []step {
	named := func(r *runner) *client.Client { return r.named }
	glob := func(r *runner) *client.Client { return r.glob }
	reading := func(r *runner) *client.Client { return r.reading }
	all := []step{
		{"generate small", named, client.Generate, l.small, s.small, false},
		{"match small, fileName", named, client.Match, l.small, s.small, false},
		{"match small, glob", glob, client.Match, l.small, s.small, false},
		{"match small, glob, never seen", glob, client.Match, l.small, s.small, true},
		{"generate large", named, client.Generate, l.large, s.large, false},
		{"generate large, readOnly", reading, client.Generate, l.large, s.large, false},
		{"generate large, never seen", named, client.Generate, l.large, s.large, true},
		{"match large, fileName", named, client.Match, l.large, s.large, false},
		{"match large, glob", glob, client.Match, l.large, s.large, false},
		{"match large, glob, never seen", glob, client.Match, l.large, s.large, true},
	}
	if s.only == "" {
		return all
	}
	return slices.DeleteFunc(all, func(one step) bool { return one.label != s.only })
}

// measure makes the calls of one step.
func (r *runner) measure(step step) error {
	into := r.result.calls[step.label]
	if into == nil {
		into = &samples{}
		r.result.calls[step.label] = into
	}
	before := proc.CPU(r.server.Processes())
	for range step.calls {
		messages := step.load.packed.Messages()
		if step.fresh {
			messages = step.load.packed.Fresh()
		}
		took, err := timed(step.client(r), step.method, messages)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", r.contestant, step.method.Name, err)
		}
		into.times = append(into.times, took)
	}
	into.cpu += proc.CPU(r.server.Processes()) - before
	return nil
}

// timed makes one call and measures it.
func timed(c *client.Client, method client.Method, messages []client.Message) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	start := time.Now()
	_, err := c.Raw(ctx, method, messages...)
	return time.Since(start), err
}

// crowd is a number of clients that make calls at the same time, each with its own
// connection.
type crowd struct {
	label          string
	plugin         plugin.Definition
	load           load
	clients, calls int
}

// applications is the number of applications of a monorepo, and atOnce how many of
// them the repo-server sends at a time.
const applications, atOnce = 16, 4

// crowds are the measurements of many clients in each round.
func crowds(s settings, l loads) []crowd {
	var all []crowd
	for _, clients := range []int{1, 4, 8, 16, 64} {
		all = append(all, crowd{fmt.Sprintf("generate small, %d clients", clients), measured, l.small, clients, max(s.small, 2*clients)})
	}
	all = append(all,
		crowd{"16 applications of one commit", measured, l.large, atOnce, applications},
		crowd{"16 applications of one commit, include", sliced, l.large, atOnce, applications},
		crowd{"16 applications of one commit, readOnly", reading, l.large, atOnce, applications},
		crowd{"64 applications of one commit", measured, l.large, atOnce, 4 * applications},
		crowd{"64 applications of one commit, readOnly", reading, l.large, atOnce, 4 * applications})
	if s.only == "" {
		return all
	}
	return slices.DeleteFunc(all, func(one crowd) bool { return one.label != s.only })
}

// together measures a crowd.
func (r *runner) together(crowd crowd) error {
	clients := make([]*client.Client, crowd.clients)
	for i := range clients {
		c, err := dial(r.server, crowd.plugin)
		if err != nil {
			return err
		}
		defer c.Close()
		clients[i] = c
	}
	failures := make([]error, crowd.clients)
	each := crowd.calls / crowd.clients
	// No server has seen the archive in an earlier round.
	messages := crowd.load.packed.Fresh()
	before := proc.CPU(r.server.Processes())
	start := time.Now()
	var group sync.WaitGroup
	for i, c := range clients {
		group.Go(func() {
			for range each {
				if _, err := timed(c, client.Generate, messages); err != nil {
					failures[i] = err
					return
				}
			}
		})
	}
	group.Wait()
	into := r.result.together[crowd.label]
	if into == nil {
		into = &rate{}
		r.result.together[crowd.label] = into
	}
	into.took += time.Since(start)
	into.cpu += proc.CPU(r.server.Processes()) - before
	into.calls += each * crowd.clients
	return errors.Join(failures...)
}

// memory measures the server's processes during large calls, including those
// that live for one request only.
func (r *runner) memory(l load) error {
	done := make(chan error, 1)
	go func() {
		for range memoryCalls {
			if _, err := timed(r.named, client.Generate, l.packed.Messages()); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		r.result.peak = max(r.result.peak, proc.PeakMemory(r.server.Processes()))
		select {
		case err := <-done:
			return err
		case <-ticker.C:
		}
	}
}
