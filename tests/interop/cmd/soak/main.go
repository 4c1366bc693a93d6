// Command soak makes mixed requests with Argo CD's own client to plugins that
// somebody else serves, and prints how they ended as JSON. Some requests are
// cancelled, some time out, and some are hostile.
//
//	go run ./cmd/soak -sockets DIR -requests 10000 -clients 16
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"cmp-supervisor/tests/interop/internal/client"

	"github.com/sirupsen/logrus"
)

// settings of a run.
type settings struct {
	sockets  string
	requests int
	clients  int
	within   time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.sockets, "sockets", "", "directory of the plugins' sockets")
	flag.IntVar(&s.requests, "requests", 10_000, "number of requests")
	flag.IntVar(&s.clients, "clients", 16, "requests at a time")
	flag.DurationVar(&s.within, "within", time.Hour, "begin no request after this time")
	flag.Parse()
	// Argo CD's client also logs each error that it returns.
	logrus.SetOutput(io.Discard)
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(s settings) (failure error) {
	root, err := repository()
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, os.RemoveAll(root)) }()
	app := client.App{Root: root, Path: root}
	numbers := make(chan int)
	tallies := make(chan *tally, s.clients)
	var group sync.WaitGroup
	for range s.clients {
		group.Go(func() {
			own := newTally()
			for number := range numbers {
				own.add(send(s.sockets, app, number))
			}
			tallies <- own
		})
	}
	start := time.Now()
	for _, number := range rand.Perm(s.requests) {
		if time.Since(start) > s.within {
			break
		}
		numbers <- number
	}
	close(numbers)
	group.Wait()
	close(tallies)
	total := newTally()
	for own := range tallies {
		total.join(own)
	}
	return json.NewEncoder(os.Stdout).Encode(total.summary(time.Since(start)))
}

// files of the repository, of which each has a few lines.
const files = 20

// repository makes the application that all requests send.
func repository() (string, error) {
	root, err := os.MkdirTemp("", "cmp-soak-")
	if err != nil {
		return "", err
	}
	for i := range files {
		text := fmt.Sprintf("kind: ConfigMap\nmetadata: {name: file-%d}\n", i)
		if err := os.WriteFile(filepath.Join(root, fmt.Sprintf("%d.yaml", i)), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return root, nil
}
