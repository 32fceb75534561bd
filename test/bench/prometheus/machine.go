package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// machine is a daemon with simulated GPUs, leases and work.
type machine struct {
	daemon  *process
	address string
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

// startMachine starts a daemon and takes leases that stand.
func startMachine(ctx context.Context, berth, folder string) (*machine, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	story, config, socket := filepath.Join(folder, "machine.yaml"), filepath.Join(folder, "berth.yaml"), filepath.Join(folder, "socket")
	settings := "gpu: {monitor_interval: 1}\nhooks:\n  nowhere: {command: [/bin/true], severity: info}\n"
	for path, text := range map[string]string{story: scenario, config: settings} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	m := &machine{address: address, socket: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
	m.daemon, err = start(ctx, berth, "serve", "--devices", "sim:"+story, "--config", config, "--state-dir", filepath.Join(folder, "state"), "--socket", socket, "--listen", address)
	if err != nil {
		return nil, err
	}
	if err := m.daemon.answers(ctx, "http://"+address+"/readyz"); err != nil {
		m.daemon.stop()
		return nil, err
	}
	for _, body := range []string{
		`{"allocation_id":"training","service":"trainer","memory_mb":40000,"gpu":"0","binding":"named"}`,
		`{"allocation_id":"embedding","service":"embedder","memory_mb":20000,"gpu":"1","binding":"named"}`,
	} {
		if err := m.post(ctx, "/api/gpu/memory/allocate", body, http.StatusCreated); err != nil {
			m.daemon.stop()
			return nil, err
		}
	}
	return m, nil
}

// post sends a request and expects a status.
func (m *machine) post(ctx context.Context, path, body string, want int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://berth"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := m.socket.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		return fmt.Errorf("POST %s %s: %s, want %d", path, body, resp.Status, want)
	}
	return nil
}

// work reports operations, takes and gives back small leases, and asks for what is
// refused, each at a steady rate, until ctx ends. The small leases are on a device
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
			err = m.post(ctx, "/api/gpu/memory/allocate", `{"allocation_id":"small","memory_mb":16,"gpu":"0","binding":"named"}`, http.StatusCreated)
			if err == nil {
				err = m.post(ctx, "/api/gpu/memory/deallocate", `{"allocation_id":"small"}`, http.StatusOK)
			}
		}
		if err == nil && n%5 == 0 {
			err = m.post(ctx, "/api/gpu/memory/allocate", `{"allocation_id":"large","memory_mb":999999,"gpu":"2"}`, http.StatusConflict)
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
