package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// machine is a daemon with simulated GPUs, leases and work.
type machine struct {
	daemon  *process
	folder  string
	address string
	front   string // address at which its model answers
	socket  *http.Client
	trouble atomic.Pointer[error] // what went wrong while it worked
}

// scenario has a busy device, a less busy one, and one that idles and runs a
// program under no lease.
const scenario = `devices: 3xh200
timeline:
  - {device: 0, load: 70, power_limit_watts: 400}
  - {device: 1, load: 35, process: {pid: 5000001, name: train, memory_mb: 20000}}
  - {device: 2, load: 10, process: {pid: 5000002, name: stray, memory_mb: 9000}}
`

// settings returns the configuration, with a model behind a front. Neither runs as root.
func settings(front, server string) string {
	user := ""
	if os.Geteuid() == 0 {
		user = ", user: nobody"
	}
	return fmt.Sprintf(`gpu: {monitor_interval: 1}
hooks:
  nowhere: {command: [/bin/true], severity: info}
front: {listen: %q%s}
services:
  chat: {command: "python3 %s --port ${PORT} --name chat", memory: 1GiB, ready: /health%s}
`, front, user, server, user)
}

// startMachine starts a daemon and takes leases that stand.
func startMachine(ctx context.Context, berth, folder string) (*machine, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	front, err := freeAddress()
	if err != nil {
		return nil, err
	}
	model, err := os.ReadFile("examples/models/server.py")
	if err != nil {
		return nil, err
	}
	story, config, socket, server := filepath.Join(folder, "machine.yaml"), filepath.Join(folder, "berth.yaml"), filepath.Join(folder, "socket"), filepath.Join(folder, "server.py")
	for path, text := range map[string]string{story: scenario, config: settings(front, server), server: string(model)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(os.Chmod(folder, 0o755), os.Chmod(server, 0o644)); err != nil { // for the model and the front
		return nil, err
	}
	m := &machine{folder: folder, address: address, front: "http://" + front + "/v1/chat/completions", socket: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
	m.daemon, err = start(ctx, berth, "serve", "--devices", "sim:"+story, "--config", config, "--state-dir", filepath.Join(folder, "state"), "--socket", socket, "--listen", address)
	if err != nil {
		return nil, err
	}
	if err := m.daemon.answers(ctx, "http://"+address+"/readyz"); err != nil {
		m.stop()
		return nil, err
	}
	for _, body := range []string{
		`{"allocation_id":"training","service":"trainer","memory_mb":40000,"gpu":"0","binding":"named"}`,
		`{"allocation_id":"embedding","service":"embedder","memory_mb":20000,"gpu":"1","binding":"named"}`,
	} {
		if err := m.post(ctx, allocate, body, http.StatusCreated); err != nil {
			m.stop()
			return nil, err
		}
	}
	return m, nil
}

// stop ends the daemon, and then the front and the model, which outlive it. Both name files
// of the folder.
func (m *machine) stop() {
	m.daemon.stop()
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, file := range found {
		words, _ := os.ReadFile(file) // empty if the process is gone
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && bytes.Contains(words, []byte(m.folder+"/")) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

const allocate = "/api/gpu/memory/allocate"

// post sends a request to the daemon and expects a status.
func (m *machine) post(ctx context.Context, path, body string, want int) error {
	return post(ctx, m.socket, "http://berth"+path, body, want)
}

func post(ctx context.Context, c *http.Client, path, body string, want int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		return fmt.Errorf("POST %s %s: %s, want %d", path, body, resp.Status, want)
	}
	return nil
}

// work reports operations, takes and gives back small leases, asks for what is refused,
// and asks the model, each at a steady rate, until ctx ends. The small leases are on a device
// where much is leased: two servers do not look at the same instant.
func (m *machine) work(ctx context.Context) {
	begun := time.Now()
	for n := 0; ; n++ {
		// A turn that comes late does not delay the later ones: the rate stays.
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(begun.Add(time.Duration(n) * 100 * time.Millisecond))):
		}
		err := m.post(ctx, "/api/services/embedder/operations", `{"latencies":[0.002,0.004,0.008,0.02,0.03,0.04,0.08,0.2,0.3,0.7]}`, http.StatusOK)
		if err == nil && n%2 == 0 {
			err = m.post(ctx, allocate, `{"allocation_id":"small","memory_mb":16,"gpu":"0","binding":"named"}`, http.StatusCreated)
			if err == nil {
				err = m.post(ctx, "/api/gpu/memory/deallocate", `{"allocation_id":"small"}`, http.StatusOK)
			}
		}
		if err == nil && n%5 == 0 {
			err = m.post(ctx, allocate, `{"allocation_id":"large","memory_mb":999999,"gpu":"2"}`, http.StatusConflict)
		}
		if err == nil && n%10 == 0 {
			err = post(ctx, http.DefaultClient, m.front, `{"model":"chat","messages":[{"role":"user","content":"hello"}]}`, http.StatusOK)
		}
		if err != nil && ctx.Err() == nil {
			m.trouble.CompareAndSwap(nil, &err)
			return
		}
	}
}

// failed returns what went wrong while the machine worked.
func (m *machine) failed() error {
	if err := m.trouble.Load(); err != nil {
		return *err
	}
	return nil
}
