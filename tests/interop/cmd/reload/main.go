// Command reload measures the time from the switch of a ConfigMap volume to the
// first answer with the new definition. Each try is a new connection and a whole
// request with Argo CD's own client.
//
//	CMP_SUPERVISOR_BIN=/path/to/cmp-supervisor go run ./cmd/reload
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/volume"

	"github.com/sirupsen/logrus"
)

// changeWithin is the time limit for one change.
const changeWithin = 20 * time.Second

func main() {
	proc.BeGuard()
	binary := flag.String("ours", os.Getenv("CMP_SUPERVISOR_BIN"), "path of cmp-supervisor")
	isolation := flag.String("isolation", os.Getenv("CMP_SUPERVISOR_ISOLATION"), "value of --isolation")
	changes := flag.Int("changes", 300, "how many changes are measured")
	plugins := flag.Int("plugins", 10, "how many plugins change at once")
	flag.Parse()
	if err := run(sut.Options{Binary: *binary, Isolation: *isolation}, *changes, *plugins); err != nil {
		fmt.Fprintln(os.Stderr, "reload:", err)
		os.Exit(1)
	}
}

func run(options sut.Options, changes, plugins int) (failure error) {
	// Argo CD's client also logs each error that it returns.
	logrus.SetOutput(io.Discard)
	session, err := proc.StartRun(proc.FastDirectory())
	if err != nil {
		return err
	}
	defer session.End()
	root := filepath.Join(session.Directory, "repository")
	if err := errors.Join(os.Mkdir(root, 0o755), os.WriteFile(filepath.Join(root, "x"), []byte("x"), 0o644)); err != nil {
		return err
	}
	var mount *volume.Volume
	options.Prepare = func(f sut.Folders) error {
		mount = volume.New(f.Plugins)
		_, err := mount.Update(payload(0, plugins))
		return err
	}
	server, err := sut.Launch(options, session.Directory)
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, server.Stop()) }()
	if err := sut.Ready(server, definition(0, 0)); err != nil {
		return err
	}
	app := client.App{Root: root, Path: root}
	var delays, answers []time.Duration
	for change := 1; change <= changes; change++ {
		// A random pause, so that the changes are not in step with polling.
		time.Sleep(300*time.Millisecond + time.Duration(change%17)*7*time.Millisecond)
		switched, err := mount.Update(payload(change, plugins))
		if err != nil {
			return err
		}
		delay, answer, err := first(server, app, change, switched)
		if err != nil {
			return err
		}
		delays, answers = append(delays, delay), append(answers, answer)
	}
	fmt.Printf("%d changes of %d plugins\n", changes, plugins)
	show("from the switch to the first new answer", delays)
	show("of which that answer itself took", answers)
	return nil
}

// first repeats the request until the answer shows the change. It returns the
// time since the switch, and the time of that request alone.
func first(server *sut.Ours, app client.App, change int, switched time.Time) (delay, answer time.Duration, failure error) {
	want := fmt.Sprintf(`{"kind":"C%d"}`, change)
	for time.Since(switched) < changeWithin {
		asked := time.Now()
		got, err := generate(server.Socket(definition(0, 0)), app)
		if err != nil {
			return 0, 0, err
		}
		if len(got) == 1 && got[0] == want {
			return time.Since(switched), time.Since(asked), nil
		}
	}
	return 0, 0, fmt.Errorf("change %d was not served within %s", change, changeWithin)
}

func generate(socket string, app client.App) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), changeWithin)
	defer cancel()
	c, err := client.Dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Generate(ctx, app)
}

func definition(i, change int) plugin.Definition {
	return plugin.Definition{Name: fmt.Sprintf("p%d", i), Spec: fmt.Sprintf("generate: {command: [echo, 'kind: C%d']}", change)}
}

func payload(change, plugins int) map[string]string {
	var all []plugin.Definition
	for i := range plugins {
		all = append(all, definition(i, change))
	}
	return volume.Payload(all...)
}

func show(what string, times []time.Duration) {
	slices.Sort(times)
	at := func(share float64) float64 {
		index := min(int(share*float64(len(times))), len(times)-1)
		return float64(times[index]) / float64(time.Millisecond)
	}
	fmt.Printf("%-42s p50 %6.1f ms  p90 %6.1f ms  p99 %6.1f ms  max %6.1f ms\n", what, at(0.5), at(0.9), at(0.99), at(1))
}
