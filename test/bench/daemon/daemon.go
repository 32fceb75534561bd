// Package daemon starts a berth daemon for a benchmark, and looks at its process from outside.
package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Setup says which daemon to start.
type Setup struct {
	Berth   string // the program
	Devices string // as after --devices
	Config  string // the configuration; empty: none
}

// Daemon is a daemon in a folder of its own, which it finds again when it is started again.
type Daemon struct {
	Dir    string
	Socket string
	HTTP   *http.Client // connected to the socket

	setup Setup
	cmd   *exec.Cmd
	said  bytes.Buffer
}

// patience is how long a daemon may take to answer; machines are busy.
const patience = 2 * time.Minute

// Start starts a daemon and waits until it is ready.
func Start(s Setup) (*Daemon, error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	d := &Daemon{Dir: dir, Socket: filepath.Join(dir, "s"), setup: s}
	d.HTTP = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", d.Socket)
		}}}
	err = os.WriteFile(d.config(), []byte(s.Config), 0o600)
	if err == nil {
		_, err = d.Begin("/readyz")
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func (d *Daemon) config() string { return filepath.Join(d.Dir, "berth.yaml") }

// Begin starts the process, and returns how long it took until a path was answered with 200.
func (d *Daemon) Begin(path string) (time.Duration, error) {
	words := []string{"serve", "--devices", d.setup.Devices, "--state-dir", filepath.Join(d.Dir, "state"), "--socket", d.Socket, "--listen", ""}
	if d.setup.Config != "" {
		words = append(words, "--config", d.config())
	}
	d.said.Reset()
	d.cmd = exec.Command(d.setup.Berth, words...)
	d.cmd.Stdout, d.cmd.Stderr = &d.said, &d.said
	// An interrupt at the terminal ends this program, and that ends the daemon.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	began := time.Now()
	if err := d.cmd.Start(); err != nil {
		d.cmd = nil
		return 0, fmt.Errorf("%w; run make build first", err)
	}
	for {
		err := d.Ask("GET", path, nil, nil)
		if err == nil {
			return time.Since(began), nil
		}
		if time.Since(began) > patience {
			d.Kill()
			return 0, fmt.Errorf("the daemon does not answer %s: %w\n%s", path, err, d.said.Bytes())
		}
		time.Sleep(time.Millisecond)
	}
}

// End asks the daemon to end, and waits until it has.
func (d *Daemon) End() { d.signal(syscall.SIGTERM) }

// Kill ends the daemon with -9.
func (d *Daemon) Kill() { d.signal(syscall.SIGKILL) }

func (d *Daemon) signal(s os.Signal) {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(s) // fails if it has ended already
	_ = d.cmd.Wait()
	d.cmd = nil
	d.HTTP.CloseIdleConnections()
}

// Close ends the daemon and removes its folder.
func (d *Daemon) Close() {
	d.End()
	_ = os.RemoveAll(d.Dir)
}

// Ask makes a request over the socket. A nil in sends no body, and a nil out reads the
// answer and forgets it.
func (d *Daemon) Ask(method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequest(method, "http://berth"+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := d.HTTP.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %s: %.500s", method, path, answer.Status, text)
	case out != nil:
		return json.Unmarshal(text, out)
	}
	return nil
}

// Goroutines returns how many goroutines the daemon says it has.
func (d *Daemon) Goroutines() (int, error) {
	n, err := d.Metrics("go_goroutines")
	if err != nil {
		return 0, err
	}
	return int(n[0]), nil
}

// Metrics returns the values of metrics without labels, in the order of their names.
func (d *Daemon) Metrics(names ...string) ([]float64, error) {
	r, err := d.HTTP.Get("http://berth/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(names))
	for i, name := range names {
		_, rest, found := strings.Cut(string(body), "\n"+name+" ")
		if !found {
			return nil, fmt.Errorf("the metrics page has no %s", name)
		}
		number, _, _ := strings.Cut(rest, "\n")
		if values[i], err = strconv.ParseFloat(number, 64); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// CPU returns the processor time that the daemon has used.
func (d *Daemon) CPU() (time.Duration, error) {
	// The number of the clock of a process, as clock_getcpuclockid(3) makes it.
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^d.cmd.Process.Pid<<3|2), &at); err != nil {
		return 0, err
	}
	return time.Duration(at.Nano()), nil
}

// Rest leaves the daemon alone for a time, and returns which share of a core it used.
func (d *Daemon) Rest(length time.Duration) (float64, error) {
	before, err := d.CPU()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	time.Sleep(length)
	after, err := d.CPU()
	return float64(after-before) / float64(time.Since(began)), err
}

// Files returns how many files the daemon has open outside of a folder.
func (d *Daemon) Files(folder string) (int, error) {
	all := fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid)
	open, err := os.ReadDir(all)
	n := 0
	for _, each := range open {
		where, _ := os.Readlink(filepath.Join(all, each.Name())) // empty if it was closed
		if !strings.HasPrefix(where, folder+"/") {
			n++
		}
	}
	return n, err
}

// Resident returns the MiB of memory that the daemon has.
func (d *Daemon) Resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("/proc has no VmRSS of the daemon")
}

// Machine returns a line that says which program was measured where.
func Machine(berth string) (string, error) {
	version, err := exec.Command(berth, "version").Output()
	if err != nil {
		return "", fmt.Errorf("run %s version: %w; run make build first", berth, err)
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // for the record only
	return fmt.Sprintf("%s%s, %d CPUs, Linux %s, %s", version, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), bytes.TrimSpace(kernel), runtime.Version()), nil
}
