// Command jobs measures what it costs that berth runs a program as a job.
//
// It measures how long it takes from the submit to the first instruction of the command,
// and how many empty jobs run in a minute, beside a plain fork and exec, task-spooler and
// GNU parallel, in turn. Neither of them writes a job to the disk before it answers: what
// berth takes longer is what it costs that nothing is lost. Then it submits an array of
// 10,000 tasks, and measures what that costs.
//
//	go run ./test/bench/jobs -berth bin/berth
package main

import (
	"bufio"
	"bytes"
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
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "stamp" {
		exitWith(stamp(os.Args[2]))
	}
	berth := flag.String("berth", "bin/berth", "the binary to measure")
	rounds := flag.Int("n", 100, "how many rounds to measure; each program runs once per round")
	empty := flag.Int("jobs", 200, "how many empty jobs to run")
	flag.Parse()
	exitWith(run(*berth, *rounds, *empty))
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "jobs:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// stamp writes down when it began. It is the command of all that is measured.
func stamp(pipe string) error {
	began := time.Now().UnixNano()
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d\n", began)
	return errors.Join(err, f.Close())
}

// bench is a daemon with four simulated devices, and what is measured with it.
type bench struct {
	berth, self, dir, socket, pipe string

	daemon *exec.Cmd
	stamps *bufio.Reader
	http   *http.Client
	env    []string
}

func start(berth string) (*bench, error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{berth: berth, dir: dir, socket: filepath.Join(dir, "s"), pipe: filepath.Join(dir, "pipe")}
	b.env = append(os.Environ(), "BERTH_SOCKET="+b.socket, "TS_SOCKET="+filepath.Join(dir, "tsp"))
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if err := syscall.Mkfifo(b.pipe, 0o600); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(b.pipe, os.O_RDWR, 0) // so that no writer ends it
	if err != nil {
		return nil, err
	}
	b.stamps = bufio.NewReader(f)
	b.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.socket)
	}}}
	config := filepath.Join(dir, "berth.yaml")
	if err := os.WriteFile(config, []byte("gpu: {max_pipelines: 100}\n"), 0o600); err != nil {
		return nil, err
	}
	b.daemon = exec.Command(berth, "serve", "--config", config, "--devices", "sim:4", "--state-dir", filepath.Join(dir, "state"), "--socket", b.socket, "--listen", "")
	if err := b.daemon.Start(); err != nil {
		return nil, err
	}
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("unix", b.socket); err == nil {
			return b, conn.Close()
		}
	}
	b.stop()
	return nil, errors.New("the daemon does not answer within 10 s")
}

func (b *bench) stop() {
	_ = b.command("tsp", "-K").Run() // fails if tsp is not installed or never ran
	_ = b.daemon.Process.Signal(os.Interrupt)
	_ = b.daemon.Wait()
	_ = os.RemoveAll(b.dir)
}

func (b *bench) command(words ...string) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env, cmd.Dir = b.env, b.dir
	return cmd
}

// call asks the daemon.
func (b *bench) call(method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, "http://berth"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := b.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(text, out)
	}
	return err
}

// shown is what the measurements need to know of a job.
type shown struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

// submit submits a job over the socket.
func (b *bench) submit(array string, words ...string) (string, error) {
	var j shown
	err := b.call("POST", "/api/jobs", map[string]any{
		"command": words, "array": array, "directory": b.dir, "output": "/dev/null", "lease": map[string]any{"memory_mb": 10, "slots": 0},
	}, &j)
	return j.ID, err
}

// await returns when a job has ended.
func (b *bench) await(id string) error {
	for {
		var j shown
		if err := b.call("GET", "/api/jobs/"+id+"?wait_seconds=60", nil, &j); err != nil {
			return err
		}
		switch j.State {
		case "done":
			return nil
		case "failed", "cancelled", "lost", "timed_out":
			return fmt.Errorf("%s is %s", id, j.State)
		}
	}
}

// contender is one way to run a program.
type contender struct {
	name string
	run  func() error      // has the stamp run once, at once or later
	many func(n int) error // runs /bin/true so many times, two at a time
	took []time.Duration
	rate float64 // a minute
}

func (b *bench) contenders() []*contender {
	bare := func(n int) error {
		for range n {
			if err := exec.Command("/bin/true").Run(); err != nil {
				return err
			}
		}
		return nil
	}
	list := []*contender{
		{name: "fork and exec", run: func() error { return b.command(b.self, "stamp", b.pipe).Run() }, many: bare},
		{name: "berth, over the socket", run: func() error { _, err := b.submit("", b.self, "stamp", b.pipe); return err }, many: func(n int) error {
			id, err := b.submit(fmt.Sprintf("1-%d", n), "/bin/true")
			if err != nil {
				return err
			}
			return b.await(id)
		}},
		{name: "berth submit", run: func() error {
			return b.command(b.berth, "submit", "--memory", "10MiB", "--output", "/dev/null", "--", b.self, "stamp", b.pipe).Run()
		}},
		{name: "task-spooler", run: func() error { return b.command("tsp", "-n", b.self, "stamp", b.pipe).Run() }, many: func(n int) error {
			for range n {
				if err := b.command("tsp", "-n", "/bin/true").Run(); err != nil {
					return err
				}
			}
			return b.command("tsp", "-w").Run()
		}},
		{name: "GNU parallel", run: func() error {
			return b.command("parallel", "--will-cite", b.self, "stamp", b.pipe, "#", ":::", "x").Run()
		}, many: func(n int) error {
			return b.command(append([]string{"parallel", "--will-cite", "-j2", "/bin/true", ":::"}, strings.Fields(strings.Repeat("x ", n))...)...).Run()
		}},
	}
	return slices.DeleteFunc(list, func(c *contender) bool {
		program := map[string]string{"task-spooler": "tsp", "GNU parallel": "parallel"}[c.name]
		if program == "" {
			return false
		}
		if _, err := exec.LookPath(program); err != nil {
			fmt.Printf("%-27s not installed (apt-get install parallel task-spooler)\n", c.name)
			return true
		}
		return false
	})
}

func run(berth string, rounds, empty int) error {
	berth, err := filepath.Abs(berth)
	if err != nil {
		return err
	}
	version, err := exec.Command(berth, "version").Output()
	if err != nil {
		return fmt.Errorf("run %s version: %w; run make build first", berth, err)
	}
	load, _ := os.ReadFile("/proc/loadavg") // for the record only
	fmt.Printf("%s%s/%s, %d CPUs, %s, %d rounds, load before %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly), rounds, strings.Join(strings.Fields(string(load))[:1], ""))
	b, err := start(berth)
	if err != nil {
		return err
	}
	defer b.stop()
	all := b.contenders()
	for round := range rounds {
		for _, c := range all {
			took, err := b.firstInstruction(c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if round >= rounds/20 { // the first rounds warm everything up
				c.took = append(c.took, took)
			}
		}
	}
	for _, c := range all {
		if c.many == nil {
			continue
		}
		began := time.Now()
		if err := c.many(empty); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		c.rate = float64(empty) / time.Since(began).Minutes()
	}
	plain := all[0]
	fmt.Printf("\nsubmit to the first instruction of the command\n%-27s %10s %10s %8s\n", "", "median", "p99", "ratio")
	for _, c := range all {
		fmt.Printf("%-27s %10s %10s %8.1f\n", c.name, show(quantile(c.took, 0.5)), show(quantile(c.took, 0.99)), ratio(quantile(c.took, 0.5), quantile(plain.took, 0.5)))
	}
	fmt.Printf("\nempty jobs a minute\n")
	for _, c := range all {
		if c.many != nil {
			fmt.Printf("%-27s %10.0f %19.2f\n", c.name, c.rate, c.rate/plain.rate)
		}
	}
	return b.manyTasks()
}

// firstInstruction returns how long it takes from the call to the first instruction.
func (b *bench) firstInstruction(c *contender) (time.Duration, error) {
	began := time.Now()
	if err := c.run(); err != nil {
		return 0, err
	}
	line, err := b.stamps.ReadString('\n')
	if err != nil {
		return 0, err
	}
	at, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return time.Unix(0, at).Sub(began), err
}

// The targets.
const (
	mostSubmit = 2 * time.Second
	mostList   = 100 * time.Millisecond
	mostBeside = 1.2
)

// manyTasks measures 10,000 tasks, of which one runs at a time, and what leases cost beside
// them. Those are of the same user: what others pay is not more.
func (b *bench) manyTasks() error {
	alone, err := b.leases()
	if err != nil {
		return err
	}
	began := time.Now()
	var j shown
	if err := b.call("POST", "/api/jobs", map[string]any{
		"command": []string{"/bin/sleep", "1000"}, "array": "1-10000", "directory": b.dir, "output": "/dev/null", "lease": map[string]any{"memory_mb": 100000, "gpu": "0"},
	}, &j); err != nil {
		return err
	}
	submitted := time.Since(began)
	began = time.Now()
	if err := b.command(b.berth, "jobs").Run(); err != nil {
		return err
	}
	listed := time.Since(began)
	began = time.Now()
	if err := b.call("GET", "/api/jobs/"+j.ID, nil, nil); err != nil {
		return err
	}
	one := time.Since(began)
	beside, err := b.leases()
	if err != nil {
		return err
	}
	again, err := b.leases()
	if err != nil {
		return err
	}
	began = time.Now()
	if err := b.call("POST", "/api/jobs/"+j.ID+"/cancel", struct{}{}, nil); err != nil {
		return err
	}
	cancelled := time.Since(began)
	after, err := b.leases()
	if err != nil {
		return err
	}
	without, with := quantile(slices.Concat(alone, after), 0.99), quantile(slices.Concat(beside, again), 0.99)
	fmt.Printf("\n10,000 tasks in one array\n")
	fmt.Printf("%-44s %10s (wanted: below %v)\n", "submitted", show(submitted), mostSubmit)
	fmt.Printf("%-44s %10s (wanted: below %v)\n", "berth jobs", show(listed), mostList)
	fmt.Printf("%-44s %10s (wanted: below %v)\n", "GET /api/jobs/{id}, with all tasks", show(one), mostList)
	fmt.Printf("%-44s %10s\n", "cancelled", show(cancelled))
	fmt.Printf("%-44s %10s median %s\n", "acquire and release without them, p99", show(without), show(quantile(slices.Concat(alone, after), 0.5)))
	fmt.Printf("%-44s %10s median %s, ratio of the p99 %.2f (wanted: at most %.1f)\n", "beside them, p99", show(with), show(quantile(slices.Concat(beside, again), 0.5)), ratio(with, without), mostBeside)
	if submitted > mostSubmit || listed > mostList || one > mostList {
		return errors.New("10,000 tasks take longer than wanted")
	}
	return nil
}

// leases measures how long it takes to acquire a lease and to release it.
func (b *bench) leases() (all []time.Duration, err error) {
	for n := range 1000 {
		id := fmt.Sprintf("beside-%d", n)
		began := time.Now()
		if err := b.call("POST", "/api/leases", map[string]any{"id": id, "memory_mb": 10, "slots": 0, "gpu": "1"}, nil); err != nil {
			return nil, err
		}
		if err := b.call("DELETE", "/api/leases/"+id, nil, nil); err != nil {
			return nil, err
		}
		all = append(all, time.Since(began))
	}
	return all, nil
}

func show(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
