// Command foundations measures scrapes of 8 devices, without leases and with 60, the
// answers of the API while one of four devices hangs, and what the idle daemon costs.
//
// It starts the daemon itself, on simulated devices. It also starts Prometheus'
// node exporter, if that is installed, to compare the scrapes with it in the
// same run.
//
//	go run ./test/bench/foundations -berth bin/berth
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-gpu/berth/test/bench/daemon"
	"github.com/berth-gpu/berth/test/bench/figure"
)

func main() {
	var o options
	flag.StringVar(&o.berth, "berth", "bin/berth", "the binary to measure")
	flag.DurationVar(&o.idle, "idle", 30*time.Second, "how long to watch the idle daemon, with the past and without it")
	flag.IntVar(&o.scrapes, "scrapes", 2000, "how many scrapes to measure")
	parts := flag.String("parts", "scrapes,busy,soak,hang,idle", "what to measure, separated by commas")
	flag.Parse()
	if err := run(o, strings.Split(*parts, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "foundations:", err)
		os.Exit(1)
	}
}

type options struct {
	berth   string
	idle    time.Duration
	scrapes int
}

func run(o options, names []string) error {
	machine, err := daemon.Machine(o.berth)
	if err != nil {
		return err
	}
	fmt.Println(machine)
	parts := map[string]func(options) error{"scrapes": scrapes, "busy": busyScrapes, "soak": soak, "hang": hang, "idle": idleCost}
	for _, name := range names {
		part, known := parts[name]
		if !known {
			return fmt.Errorf("there is no part %q: use scrapes, busy, soak, hang and idle", name)
		}
		if err := part(o); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// machineOf8 starts a daemon with eight devices.
func (o options) machineOf8(config string) (*daemon.Daemon, error) {
	return daemon.Start(daemon.Setup{Berth: o.berth, Devices: "sim:dgx-h200", Config: config})
}

// scrapes reads the metrics of eight devices over and over.
func scrapes(o options) error {
	d, err := o.machineOf8("")
	if err != nil {
		return err
	}
	defer d.Close()
	ours, err := times(d.HTTP, "http://berth/metrics", o.scrapes)
	if err != nil {
		return err
	}
	fmt.Printf("\nscrape of 8 devices        median %-9s p99 %s\n", round(ours, 0.5), round(ours, 0.99))
	figure.Say("scrape of 8 devices", figure.Quantile(ours, 0.5).Seconds()*1e6, "µs", figure.Less)
	theirs, err := nodeExporter(min(300, o.scrapes))
	if err != nil {
		fmt.Printf("node exporter              %v\n", err)
		return nil
	}
	ratio := float64(figure.Quantile(ours, 0.5)) / float64(figure.Quantile(theirs, 0.5))
	fmt.Printf("node exporter              median %-9s p99 %-9s ratio %.1f\n", round(theirs, 0.5), round(theirs, 0.99), 1/ratio)
	figure.Say("scrape of 8 devices ÷ node exporter", ratio, "ratio", figure.Less)
	return nil
}

// leasesOfBusy is how many leases a busy machine has.
const leasesOfBusy = 60

// busyScrapes reads the metrics of eight devices with leases, and measures what a scrape
// costs the daemon.
func busyScrapes(o options) error {
	d, err := o.machineOf8("")
	if err != nil {
		return err
	}
	defer d.Close()
	for i := range leasesOfBusy {
		body := map[string]any{"id": fmt.Sprint("busy-", i), "service": fmt.Sprint("service-", i%10), "memory_mb": 1000, "slots": 0, "gpu": fmt.Sprint(i % 8), "binding": "named"}
		if err := d.Ask("POST", "/api/leases", body, nil); err != nil {
			return err
		}
	}
	if _, err := times(d.HTTP, "http://berth/metrics", o.scrapes/10); err != nil { // warms everything up
		return err
	}
	before, err := d.CPU()
	if err != nil {
		return err
	}
	took, err := times(d.HTTP, "http://berth/metrics", o.scrapes)
	if err != nil {
		return err
	}
	after, err := d.CPU()
	if err != nil {
		return err
	}
	cost := (after - before) / time.Duration(o.scrapes)
	fmt.Printf("\nscrape of 8 devices with %d leases: median %s, p99 %s, %s of the daemon's CPU\n", leasesOfBusy, round(took, 0.5), round(took, 0.99), cost.Round(time.Microsecond))
	figure.Say(fmt.Sprintf("scrape of 8 devices with %d leases, CPU", leasesOfBusy), cost.Seconds()*1e3, "ms", figure.Less)
	return nil
}

// soak starts and ends scrapers and event readers, and compares how many
// goroutines the daemon has before and after.
func soak(o options) error {
	d, err := o.machineOf8("")
	if err != nil {
		return err
	}
	defer d.Close()
	before, err := d.Goroutines()
	if err != nil {
		return err
	}
	const scrapes, readers = 10_000, 1_000
	if _, err := times(d.HTTP, "http://berth/metrics", scrapes); err != nil {
		return err
	}
	for range readers {
		if err := peek(d.HTTP, "http://berth/api/events"); err != nil {
			return err
		}
	}
	d.HTTP.CloseIdleConnections()
	var after int
	for range 100 { // the daemon notices a moment later that a reader has left
		if after, err = d.Goroutines(); err != nil || after <= before {
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
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()
	for range 200 {
		if _, err = times(http.DefaultClient, "http://"+address+"/metrics", 1); err == nil {
			return times(http.DefaultClient, "http://"+address+"/metrics", n)
		}
		time.Sleep(25 * time.Millisecond)
	}
	return nil, fmt.Errorf("%s did not come up: %w", path, err)
}

const hangScenario = `
devices:
  - {model: h200, count: 4}
timeline:
  - {at: 2s, device: 1, hang: true, for: 10s}
`

// hang asks for the status of all devices while one of four hangs, and measures
// when that one becomes UNAVAILABLE and when it comes back.
func hang(o options) error {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	scenario := filepath.Join(dir, "hang.yaml")
	if err := os.WriteFile(scenario, []byte(hangScenario), 0o600); err != nil {
		return err
	}
	d, err := daemon.Start(daemon.Setup{Berth: o.berth, Devices: "sim:" + scenario})
	if err != nil {
		return err
	}
	defer d.Close()
	began := time.Now()
	var during []time.Duration
	var gone, back time.Duration
	others := 0
	for back == 0 && time.Since(began) < 40*time.Second {
		asked := time.Now()
		states, err := states(d)
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
	fmt.Printf("\none of four devices hangs  %d status calls meanwhile: median %s, p99 %s\n", len(during), round(during, 0.5), round(during, 0.99))
	fmt.Printf("                           hang of 10 s from 2 s on: UNAVAILABLE at %.1f s, back at %.1f s; answers that touched the others: %d\n", gone.Seconds(), back.Seconds(), others)
	return nil
}

// settle is how long a daemon has to finish what it began with.
const settle = 3 * time.Second

// idleCost measures the processor time of a daemon that gets no requests, with the past
// that it keeps unless told otherwise, and without it.
func idleCost(o options) error {
	fmt.Println()
	for _, past := range []struct{ words, config string }{
		{"with the past", ""},
		{"without the past", "past: off\n"},
	} {
		d, err := o.machineOf8(past.config)
		if err != nil {
			return err
		}
		defer d.Close()
		time.Sleep(settle)
		share, err := d.Rest(o.idle)
		if err != nil {
			return err
		}
		memory, err := d.Resident()
		if err != nil {
			return err
		}
		fmt.Printf("idle daemon, 8 devices, %-16s %.3f %% of a core over %s at the default interval, %.0f MiB resident\n", past.words, share*100, o.idle, memory)
		figure.Say("idle daemon, 8 devices, "+past.words+", of a core", share*100, "%", figure.Less)
		figure.Say("idle daemon, 8 devices, "+past.words+", resident", memory, "MiB", figure.Less)
		d.Close()
	}
	return nil
}

// peek opens a stream, reads its beginning and closes it.
func peek(c *http.Client, address string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", address, nil)
	if err != nil {
		return err
	}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = answer.Body.Read(make([]byte, 1))
	return err
}

// times asks for a page over and over.
func times(c *http.Client, address string, n int) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range took {
		asked := time.Now()
		answer, err := c.Get(address)
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close() // it was read
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", address, answer.Status)
		}
		if err != nil {
			return nil, err
		}
		took[i] = time.Since(asked)
	}
	return took, nil
}

// states returns the state of each device.
func states(d *daemon.Daemon) ([]string, error) {
	var all struct {
		GPUs []struct{ State string }
	}
	if err := d.Ask("GET", "/api/gpu/status/all", nil, &all); err != nil {
		return nil, err
	}
	var states []string
	for _, d := range all.GPUs {
		states = append(states, d.State)
	}
	return states, nil
}

func round(took []time.Duration, q float64) time.Duration {
	return figure.Quantile(took, q).Round(time.Microsecond)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
