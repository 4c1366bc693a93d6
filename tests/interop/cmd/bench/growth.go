package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/tree"
)

// growthPlugins, growthArchives, growthManifests, growthCopies and growthClients are the
// sizes to measure: numbers of plugins, bytes of archives, numbers of manifests, copies of
// Argo CD's CRDs, and clients that generate while another one matches.
var (
	growthPlugins   = []int{1, 10, 50, 100}
	growthArchives  = []int{1e6, 10e6, 50e6, 200e6}
	growthManifests = []int{10, 100, 1000, 10_000, 45_000}
	growthCopies    = []int{1, 2, 4}
	growthClients   = []int{0, 1, 4, 16, 64}
)

// packedPart is the part of its size that a repository of this program has when it
// is packed, as a divisor.
const packedPart = 3

// point is what one contestant needs at one size.
type point struct {
	p50, p99, cpu time.Duration
	memory        int64
}

// curve is one thing that grows.
type curve struct {
	name, memory string
	sizes        []int
	at           func(contestant, int) (point, error)
}

// growth prints a table for each curve.
func growth(s settings, directory string) error {
	contestants, err := line(s, directory)
	if err != nil {
		return err
	}
	for _, c := range curves(s, directory) {
		if s.only != "" && s.only != c.name {
			continue
		}
		if err := c.print(contestants); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func curves(s settings, directory string) []curve {
	fresh := func() string { return filepath.Join(directory, "growth-"+proc.Token()) }
	small := func() (load, error) { return newLoad(fresh(), smallFiles, smallBytes) }
	printed := func(c contestant, text string) (point, error) {
		l, err := newManifests(fresh(), text)
		if err != nil {
			return point{}, err
		}
		return ofLoad(c, calls(l, s.large, client.Generate))
	}
	return []curve{
		{"plugins", "idle MB", growthPlugins, func(c contestant, plugins int) (point, error) {
			l, err := small()
			if err != nil {
				return point{}, err
			}
			return amongPlugins(c, plugins, calls(l, s.small, client.Generate))
		}},
		{"bytes of an archive", "peak MB", growthArchives, func(c contestant, bytes int) (point, error) {
			l, err := newLoad(fresh(), max(bytes*packedPart/largeBytes, 1), largeBytes)
			if err != nil {
				return point{}, err
			}
			return ofLoad(c, calls(l, s.large, client.Generate))
		}},
		{"manifests", "peak MB", growthManifests, func(c contestant, manifests int) (point, error) {
			return printed(c, configMaps(manifests))
		}},
		{"copies of Argo CD's CRDs", "peak MB", growthCopies, func(c contestant, copies int) (point, error) {
			text, err := resourceDefinitions()
			if err != nil {
				return point{}, err
			}
			return printed(c, strings.Repeat(text, copies))
		}},
		{"clients that generate while one matches", "peak MB", growthClients, func(c contestant, clients int) (point, error) {
			l, err := small()
			if err != nil {
				return point{}, err
			}
			return besideClients(c, clients, calls(l, s.small, client.Match))
		}},
	}
}

// calls is a step with new archives.
func calls(l load, number int, method client.Method) step {
	named := func(r *runner) *client.Client { return r.named }
	return step{"growth", named, method, l, number, true}
}

// configMaps is a text of many small documents.
func configMaps(number int) string {
	var text strings.Builder
	for i := range number {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: app-%d, labels: {app: app}}\ndata: {key: value, other: \"%d\"}\n", i, i)
	}
	return text.String()
}

// resourceDefinitions is the text of the CRDs in Argo CD's module, 1.4 MB of three documents.
func resourceDefinitions() (string, error) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-cd/v3").Output()
	if err != nil {
		return "", fmt.Errorf("cannot find the module of Argo CD: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "manifests", "crds", "*-crd.yaml"))
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		text.WriteString("---\n")
		text.Write(content)
	}
	if text.Len() == 0 {
		return "", errors.New("the module of Argo CD has no CRDs")
	}
	return text.String(), nil
}

// newManifests is an application of one file, which the measured plugin prints.
func newManifests(root, text string) (load, error) {
	if err := os.Mkdir(root, 0o755); err != nil {
		return load{}, err
	}
	if err := tree.Write(root, tree.Files{"app/app.yaml": text}); err != nil {
		return load{}, err
	}
	packed, err := client.App{Root: root, Path: filepath.Join(root, "app")}.Pack()
	return load{1, len(text), packed}, err
}

// amongPlugins measures one of many plugins, and the memory of all before any call.
func amongPlugins(c contestant, number int, step step) (got point, failure error) {
	plugins := []plugin.Definition{measured}
	for i := 1; i < number; i++ {
		plugins = append(plugins, plugin.Definition{Name: fmt.Sprintf("other-%d", i), Spec: measured.Spec})
	}
	server, err := c.start(plugins...)
	if err != nil {
		return point{}, err
	}
	r := &runner{server: server, result: newResult(), contestant: c.name}
	defer func() { failure = errors.Join(failure, server.Stop()) }()
	if r.named, err = dial(server, measured); err != nil {
		return point{}, err
	}
	defer r.named.Close()
	memory := proc.ProportionalMemory(server.Processes())
	if err := r.measure(step); err != nil {
		return point{}, err
	}
	return newPoint(r, step, memory), nil
}

func newPoint(r *runner, step step, memory int64) point {
	of := r.result.calls[step.label]
	return point{of.percentile(50), of.percentile(99), of.cpuPerCall(), memory}
}

// ofLoad measures calls, and then the memory during some more.
func ofLoad(c contestant, step step) (got point, failure error) {
	r, err := newRunner(c, newResult())
	if err != nil {
		return point{}, err
	}
	defer func() { failure = errors.Join(failure, r.close()) }()
	if err := r.measure(step); err != nil {
		return point{}, err
	}
	if err := r.memory(step.load); err != nil {
		return point{}, err
	}
	return newPoint(r, step, r.result.peak), nil
}

// besideClients measures one client while others generate without a pause.
func besideClients(c contestant, clients int, step step) (got point, failure error) {
	r, err := newRunner(c, newResult())
	if err != nil {
		return point{}, err
	}
	defer func() { failure = errors.Join(failure, r.close()) }()
	stop, failures := make(chan struct{}), make([]error, clients)
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() { failures[i] = generateUntil(stop, r, step.load) })
	}
	err = r.measure(step)
	peak := proc.PeakMemory(r.server.Processes())
	close(stop)
	group.Wait()
	if err := errors.Join(append(failures, err)...); err != nil {
		return point{}, err
	}
	return newPoint(r, step, peak), nil
}

func generateUntil(stop <-chan struct{}, r *runner, l load) error {
	c, err := dial(r.server, measured)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		select {
		case <-stop:
			return nil
		default:
			if _, err := timed(c, client.Generate, l.packed.Messages()); err != nil {
				return err
			}
		}
	}
}

func (c curve) print(contestants []contestant) error {
	const padding = 2
	fmt.Println()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, padding, ' ', 0)
	header := []string{c.name}
	for _, one := range contestants {
		for _, value := range []string{"p50 ms", "p99 ms", "CPU ms", c.memory} {
			header = append(header, one.name+" "+value)
		}
	}
	fmt.Fprintln(table, strings.Join(header, "\t"))
	for _, size := range c.sizes {
		cells := []string{fmt.Sprint(size)}
		for _, one := range contestants {
			got, err := c.at(one, size)
			if err != nil {
				return err
			}
			cells = slices.Concat(cells, got.cells())
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

func (p point) cells() []string {
	times := []time.Duration{p.p50, p.p99, p.cpu}
	var cells []string
	for _, one := range times {
		cells = append(cells, fmt.Sprintf("%.2f", milliseconds(one)))
	}
	return append(cells, fmt.Sprintf("%.1f", float64(p.memory)/1e6))
}
