package pod

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// answerWithin is the time limit for an answer to a probe.
const answerWithin = time.Minute

// maxAnswer is the number of bytes that are read of an answer.
const maxAnswer = 1 << 20

// PID is the process ID of the sidecar's first process, or an error while it does
// not run.
func (p *Pod) PID() (int, error) {
	var state struct {
		Status string `json:"status"`
		PID    int    `json:"pid"`
	}
	output, err := exec.Command("runc", "--root", p.hidden("runc"), "state", p.id(p.sidecar())).Output()
	if err != nil {
		return 0, fmt.Errorf("runc state: %w", err)
	}
	if err := json.Unmarshal(output, &state); err != nil {
		return 0, err
	}
	if state.Status != "running" {
		return 0, fmt.Errorf("the sidecar is %s", state.Status)
	}
	return state.PID, nil
}

// Get asks a port in the Pod's network, and fails unless the status is 200.
func (p *Pod) Get(port int, path string) (string, error) {
	pid, err := p.PID()
	if err != nil {
		return "", err
	}
	conn, err := dialWithin(pid, port)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(answerWithin)) // Connections over TCP have deadlines.
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n", path); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, body)
	}
	return string(body), err
}

// dialWithin connects in the network namespace of a process.
func dialWithin(pid, port int) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result, 1)
	go func() {
		// Not unlocked: the thread is in another namespace, so it ends with the goroutine.
		runtime.LockOSThread()
		namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err != nil {
			results <- result{err: err}
			return
		}
		defer func() { _ = namespace.Close() }()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			results <- result{err: err}
			return
		}
		conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), answerWithin)
		results <- result{conn, err}
	}()
	done := <-results
	return done.conn, done.err
}
