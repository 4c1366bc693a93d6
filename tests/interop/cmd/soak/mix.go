package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"cmp-supervisor/tests/interop/internal/client"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// deadline of an ordinary request.
	deadline = time.Minute
	// soon is the deadline of a request that must time out.
	soon = 700 * time.Millisecond
	// brief is the longest time until a request is cancelled.
	brief = 400 * time.Millisecond
)

// kind is a kind of request, and its part of all.
type kind struct {
	name     string
	perMille int
	send     func(ctx context.Context, sockets string, app client.App, number int) error
}

// hostile are plugins whose every request must fail.
var hostile = []string{"bomb", "memory-hog", "disk-hog", "loud"}

// kinds are all kinds; their parts are 1,000 together.
var kinds = []kind{
	{"generate", 590, generate},
	{"generate with reloads", 100, reloaded},
	{"match by names", 150, matches("render")},
	{"match by command", 25, matches("finding")},
	{"parameters", 25, parameters},
	{"cancelled", 50, cancelled},
	{"timed out", 50, timedOut},
	{"hostile", 10, attack},
}

// of is the kind of a request: the same in every run.
func of(number int) kind {
	const perMille, step = 1000, 7
	left := number * step % perMille
	for _, k := range kinds {
		if left < k.perMille {
			return k
		}
		left -= k.perMille
	}
	return kinds[0]
}

// outcome is the end of one request.
type outcome struct {
	kind string
	took time.Duration
	err  error
}

func send(sockets string, app client.App, number int) outcome {
	k := of(number)
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	start := time.Now()
	err := k.send(ctx, sockets, app, number)
	return outcome{k.name, time.Since(start), err}
}

// with dials a plugin as the repo-server does: a connection for each request.
func with(ctx context.Context, sockets, plugin string, use func(*client.Client) error) error {
	c, err := client.Dial(ctx, filepath.Join(sockets, plugin+".sock"))
	if err != nil {
		return err
	}
	defer c.Close()
	return use(c)
}

func generated(ctx context.Context, sockets, plugin string, app client.App) (manifests []string, failure error) {
	failure = with(ctx, sockets, plugin, func(c *client.Client) (err error) {
		manifests, err = c.Generate(ctx, app)
		return err
	})
	return manifests, failure
}

func generate(ctx context.Context, sockets string, app client.App, number int) error {
	app.Env = []string{fmt.Sprintf("ARGOCD_ENV_NUMBER=%d", number)}
	manifests, err := generated(ctx, sockets, "render", app)
	if err != nil {
		return err
	}
	last := fmt.Sprintf(`{"number":%d}`, number)
	if len(manifests) != files+1 || manifests[files] != last {
		return fmt.Errorf("wrong answer: %d manifests, the last is not %s", len(manifests), last)
	}
	return nil
}

func reloaded(ctx context.Context, sockets string, app client.App, _ int) error {
	manifests, err := generated(ctx, sockets, "reloaded", app)
	if err == nil && len(manifests) != 1 {
		return fmt.Errorf("wrong answer: %q", manifests)
	}
	return err
}

func matches(plugin string) func(context.Context, string, client.App, int) error {
	return func(ctx context.Context, sockets string, app client.App, _ int) error {
		return with(ctx, sockets, plugin, func(c *client.Client) error {
			response, err := c.Match(ctx, app)
			if err == nil && !response.GetIsSupported() {
				return errors.New("wrong answer: not claimed")
			}
			return err
		})
	}
}

func parameters(ctx context.Context, sockets string, app client.App, _ int) error {
	return with(ctx, sockets, "render", func(c *client.Client) error {
		announced, err := c.Parameters(ctx, app)
		if err == nil && len(announced) != 1 {
			return fmt.Errorf("wrong answer: %v", announced)
		}
		return err
	})
}

func cancelled(ctx context.Context, sockets string, app client.App, _ int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(time.Duration(rand.Int64N(int64(brief))), cancel).Stop()
	_, err := generated(ctx, sockets, "slow", app)
	return expect(ctx, err, codes.Canceled)
}

func timedOut(ctx context.Context, sockets string, app client.App, _ int) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	_, err := generated(ctx, sockets, "slow", app)
	return expect(ctx, err, codes.DeadlineExceeded)
}

// expect returns nil if the request failed with the code. A client that was
// stopped while it sends sees the end of its stream instead.
func expect(ctx context.Context, err error, code codes.Code) error {
	if err == nil {
		return errors.New("answered, but the command never ends")
	}
	if status.Code(err) == code || ctx.Err() != nil {
		return nil
	}
	return err
}

func attack(ctx context.Context, sockets string, app client.App, number int) error {
	plugin := hostile[number%len(hostile)]
	_, err := generated(ctx, sockets, plugin, app)
	if err == nil {
		return fmt.Errorf("%s was answered", plugin)
	}
	// The connection must survive, and the request end before its deadline.
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return fmt.Errorf("%s: %w", plugin, err)
	default:
		return nil
	}
}
