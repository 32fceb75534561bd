// Command foundations measures scrapes of 8 devices, the answers of the API
// while one of four devices hangs, and what the idle daemon costs.
//
// It starts the daemon itself, on simulated devices. It also starts Prometheus'
// node exporter, if that is installed, to compare the scrapes with it in the
// same run.
//
//	go run ./test/bench/foundations -berth bin/berth
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	berth := flag.String("berth", "bin/berth", "the binary to measure")
	idle := flag.Duration("idle", 30*time.Second, "how long to watch the idle daemon")
	flag.Parse()
	if err := run(*berth, *idle); err != nil {
		fmt.Fprintln(os.Stderr, "foundations:", err)
		os.Exit(1)
	}
}

func run(berth string, idle time.Duration) error {
	version, err := exec.Command(berth, "version").Output()
	if err != nil {
		return fmt.Errorf("run %s version: %w; run make build first", berth, err)
	}
	fmt.Printf("%s%s/%s, %d CPUs, %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly))
	for _, part := range []func(string, time.Duration) error{scrapes, soak, hang, idleCost} {
		if err := part(berth, idle); err != nil {
			return err
		}
	}
	return nil
}

// scrapes reads the metrics of eight devices over and over.
func scrapes(berth string, _ time.Duration) error {
	d, err := start(berth, "sim:dgx-h200")
	if err != nil {
		return err
	}
	defer d.stop()
	ours, err := d.times("/metrics", 2000)
	if err != nil {
		return err
	}
	fmt.Printf("\nscrape of 8 devices        median %-9s p99 %s\n", quantile(ours, 0.5), quantile(ours, 0.99))
	theirs, err := nodeExporter(300)
	if err != nil {
		fmt.Printf("node exporter              %v\n", err)
		return nil
	}
	fmt.Printf("node exporter              median %-9s p99 %-9s ratio %.1f\n", quantile(theirs, 0.5), quantile(theirs, 0.99),
		float64(quantile(theirs, 0.5))/float64(quantile(ours, 0.5)))
	return nil
}

// soak starts and ends scrapers and event readers, and compares how many
// goroutines the daemon has before and after.
func soak(berth string, _ time.Duration) error {
	d, err := start(berth, "sim:dgx-h200")
	if err != nil {
		return err
	}
	defer d.stop()
	before, err := d.goroutines()
	if err != nil {
		return err
	}
	const scrapes, readers = 10_000, 1_000
	if _, err := d.times("/metrics", scrapes); err != nil {
		return err
	}
	for range readers {
		if err := d.peek("/api/events"); err != nil {
			return err
		}
	}
	d.http.CloseIdleConnections()
	var after int
	for range 100 { // the daemon notices a moment later that a reader has left
		if after, err = d.goroutines(); err != nil || after <= before {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Printf("\n%d scrapes and %d event readers that came and went: %d goroutines before, %d after\n", scrapes, readers, before, after)
	if after > before {
		return errors.New("the daemon did not end all goroutines")
	}
	return err
}

// nodeExporter starts Prometheus' node exporter and scrapes it.
func nodeExporter(n int) ([]time.Duration, error) {
	path, err := exec.LookPath("prometheus-node-exporter")
	if err != nil {
		return nil, errors.New("nothing to compare with: the node exporter is not installed (apt-get install prometheus-node-exporter)")
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "--web.listen-address="+address)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &program{cmd: cmd, http: http.DefaultClient, base: "http://" + address}
	defer p.stop()
	if err := p.wait("/metrics"); err != nil {
		return nil, err
	}
	return p.times("/metrics", n)
}

const hangScenario = `
devices:
  - {model: h200, count: 4}
timeline:
  - {at: 2s, device: 1, hang: true, for: 10s}
`

// hang asks for the status of all devices while one of four hangs, and measures
// when that one becomes UNAVAILABLE and when it comes back.
func hang(berth string, _ time.Duration) error {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	scenario := filepath.Join(dir, "hang.yaml")
	if err := os.WriteFile(scenario, []byte(hangScenario), 0o600); err != nil {
		return err
	}
	d, err := start(berth, "sim:"+scenario)
	if err != nil {
		return err
	}
	defer d.stop()
	began := time.Now()
	var during []time.Duration
	var gone, back time.Duration
	others := 0
	for back == 0 && time.Since(began) < 40*time.Second {
		asked := time.Now()
		states, err := d.states()
		if err != nil {
			return err
		}
		took, since := time.Since(asked), time.Since(began)
		switch hung := states[1] == "UNAVAILABLE"; {
		case hung && gone == 0:
			gone = since
		case !hung && gone != 0:
			back = since
		}
		if gone != 0 && back == 0 {
			during = append(during, took)
		}
		if states[0] == "UNAVAILABLE" || states[2] == "UNAVAILABLE" || states[3] == "UNAVAILABLE" {
			others++
		}
	}
	if gone == 0 || back == 0 {
		return errors.New("the hung device did not become UNAVAILABLE, or did not come back")
	}
	fmt.Printf("\none of four devices hangs  %d status calls meanwhile: median %s, p99 %s\n", len(during), quantile(during, 0.5), quantile(during, 0.99))
	fmt.Printf("                           hang of 10 s from 2 s on: UNAVAILABLE at %.1f s, back at %.1f s; answers that touched the others: %d\n", gone.Seconds(), back.Seconds(), others)
	return nil
}

// idleCost measures the processor time of a daemon that gets no requests.
func idleCost(berth string, idle time.Duration) error {
	d, err := start(berth, "sim:dgx-h200")
	if err != nil {
		return err
	}
	defer d.stop()
	before, err := d.ticks()
	if err != nil {
		return err
	}
	time.Sleep(idle)
	after, err := d.ticks()
	if err != nil {
		return err
	}
	const perSecond = 100 // USER_HZ, which Linux has fixed for programs
	fmt.Printf("\nidle daemon, 8 devices     %.3f %% of a core over %s at the default interval, %d MiB resident\n",
		float64(after-before)/perSecond/idle.Seconds()*100, idle, d.resident())
	return nil
}

// program is a started program that serves HTTP.
type program struct {
	cmd  *exec.Cmd
	dir  string
	http *http.Client
	base string
}

func start(berth, devices string) (*program, error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "berth.sock")
	cmd := exec.Command(berth, "serve", "--devices", devices, "--state-dir", dir, "--socket", socket, "--listen", "")
	p := &program{cmd: cmd, dir: dir, base: "http://berth", http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return p, p.wait("/readyz")
}

func (p *program) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	_ = p.cmd.Wait()
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}

func (p *program) wait(path string) error {
	var err error
	for range 200 {
		if _, err = p.get(path); err == nil {
			return nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	p.stop()
	return fmt.Errorf("%s did not come up: %w", p.cmd.Path, err)
}

func (p *program) get(path string) ([]byte, error) {
	r, err := p.http.Get(p.base + path)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, r.Status)
	}
	return body, err
}

// peek opens a stream, reads its beginning and closes it.
func (p *program) peek(path string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", p.base+path, nil)
	if err != nil {
		return err
	}
	answer, err := p.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = answer.Body.Read(make([]byte, 1))
	return err
}

// goroutines returns how many goroutines the program says it has.
func (p *program) goroutines() (int, error) {
	body, err := p.get("/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			return strconv.Atoi(strings.TrimSpace(rest))
		}
	}
	return 0, errors.New("the metrics page has no go_goroutines")
}

func (p *program) times(path string, n int) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range took {
		asked := time.Now()
		if _, err := p.get(path); err != nil {
			return nil, err
		}
		took[i] = time.Since(asked)
	}
	return took, nil
}

func (p *program) states() ([]string, error) {
	body, err := p.get("/api/gpu/status/all")
	if err != nil {
		return nil, err
	}
	var all struct {
		GPUs []struct{ State string }
	}
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	var states []string
	for _, d := range all.GPUs {
		states = append(states, d.State)
	}
	return states, nil
}

func (p *program) ticks() (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return user + system, err
}

func (p *program) resident() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kib / 1024
		}
	}
	return 0
}

func quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Round(time.Microsecond)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
