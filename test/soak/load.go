package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/test/bench/daemon"
)

// load is everything that goes on at once.
type load struct {
	o       options
	dir     string // readable by all: programs that run as others
	d       *daemon.Daemon
	c       *client.Client
	front   string // address
	running sync.WaitGroup
	process sync.RWMutex // locked while the daemon is started again

	mu    sync.Mutex // guards what follows
	done  map[string]int
	wrong map[string]string // the last failure of each kind of work
	took  []time.Duration   // by acquires since the last look
	down  bool              // the daemon is being started again
}

const worker = `import berth
berth.worker(lambda records: [{"n": r["n"] + 1} for r in records])
`

func newLoad(o options) (l *load, err error) {
	l = &load{o: o, done: map[string]int{}, wrong: map[string]string{}}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.dir, err = os.MkdirTemp("", "berth-soak-"); err != nil {
		return l, err
	}
	server, err := os.ReadFile(filepath.Join(o.source, "examples/models/server.py"))
	if err != nil {
		return l, err
	}
	guests := filepath.Join(l.dir, "guests")
	err = errors.Join(os.Chmod(l.dir, 0o755), os.Mkdir(guests, 0o755), os.Chmod(guests, 0o777),
		os.WriteFile(filepath.Join(l.dir, "server.py"), server, 0o644),
		os.WriteFile(filepath.Join(l.dir, "worker.py"), []byte(worker), 0o644),
		os.Setenv("BERTH_SIM_GUESTS", guests))
	if err != nil {
		return l, err
	}
	if l.front, err = freeAddress(); err != nil {
		return l, err
	}
	if l.d, err = daemon.Start(daemon.Setup{Berth: o.berth, Devices: "sim:4", Config: l.config(guests)}); err != nil {
		return l, err
	}
	if err = os.Chmod(l.d.Dir, 0o755); err != nil { // for the front, which does not run as root
		return l, err
	}
	l.c, err = client.New(client.Options{Socket: l.d.Socket, Timeout: time.Minute})
	return l, err
}

// models are the services. Two of three fit on a device beside the leases.
var models = []string{"chat", "coder", "embed"}

// config returns the configuration: a front, and services that do not run as root.
func (l *load) config(guests string) string {
	var b strings.Builder
	user := ""
	if os.Geteuid() == 0 {
		user = ", user: nobody"
	}
	// Nobody waits for a slot, so that an acquire takes what the daemon takes.
	fmt.Fprintf(&b, "gpu: {max_pipelines: 64}\nfront: {listen: %q%s}\nservices:\n", l.front, user)
	for _, name := range models {
		fmt.Fprintf(&b, "  %s: {command: %q, memory: 30GiB, ready: /health%s}\n", name,
			fmt.Sprintf("python3 %s --port ${PORT} --name %s --memory 4GiB --guests %s", filepath.Join(l.dir, "server.py"), name, guests), user)
	}
	return b.String()
}

func freeAddress() (string, error) {
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return door.Addr().String(), door.Close()
}

func (l *load) close() {
	if l.c != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		for _, name := range models {
			_, _ = l.c.StopService(ctx, name, "the soak is over") // those that stay are ended below
		}
		cancel()
		l.c.Close()
	}
	if l.d != nil {
		l.d.Close()
	}
	if l.dir != "" {
		l.endOthers()
		_ = os.RemoveAll(l.dir)
	}
}

// endOthers ends what outlives the daemon: the front, and programs of services. Both name
// files that only this run has.
func (l *load) endOthers() {
	own := [][]byte{[]byte(filepath.Join(l.dir, "server.py"))}
	if l.d != nil {
		own = append(own, []byte("\x00"+l.d.Socket+"\x00"))
	}
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, file := range found {
		words, _ := os.ReadFile(file) // empty if the process is gone
		if slices.ContainsFunc(own, func(name []byte) bool { return bytes.Contains(words, name) }) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// fill lets jobs end that never began. Each has a comment that is as long as what is kept
// only of one that ran.
func (l *load) fill(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(16)
	began := time.Now()
	for n := range l.o.ended {
		if n%10_000 == 0 {
			fmt.Printf("%d jobs have ended after %v\n", n, time.Since(began).Round(time.Second))
		}
		all.Go(func() error {
			r := l.jobRequest()
			r.Hold, r.Lease.Comment = true, strings.Repeat("x", 150)
			j, err := l.c.Submit(ctx, r)
			if err == nil {
				_, err = l.c.CancelJob(ctx, j.ID, "soak")
			}
			return err
		})
	}
	return all.Wait()
}

func (l *load) jobRequest() api.JobRequest {
	return api.JobRequest{Command: []string{"sh", "-c", "echo done"}, Name: "soak", Directory: l.dir, Output: "/dev/null", Lease: api.LeaseRequest{Memory: 1 << 10}}
}

// begin starts the work, which ends with ctx.
func (l *load) begin(ctx context.Context) {
	for what, do := range map[string]func(context.Context, *rand.Rand) error{
		"job": l.job, "batch": l.batch, "request of a model": l.ask, "service ordered": l.order,
		"query": l.query, "page": l.page, "reader of events": l.read, "holder killed": l.killHolder,
	} {
		l.running.Go(func() { l.repeat(ctx, what, do) })
	}
	for range 4 {
		l.running.Go(func() { l.repeat(ctx, "lease", l.lease) })
	}
	if l.o.restarts > 0 {
		l.running.Go(func() { l.restart(ctx) })
	}
}

func (l *load) wait() { l.running.Wait() }

// repeat does one kind of work over and over, with pauses. A failure is counted, and the next
// one is tried: what matters here is what the daemon takes.
func (l *load) repeat(ctx context.Context, what string, do func(context.Context, *rand.Rand) error) {
	random := rand.New(rand.NewPCG(rand.Uint64(), 1))
	for ctx.Err() == nil {
		err := do(ctx, random)
		l.mu.Lock()
		switch {
		case err == nil:
			l.done[what]++
		case ctx.Err() == nil && !l.down:
			l.done[what+", failed"]++
			l.wrong[what] = err.Error()
		}
		l.mu.Unlock()
		pause(ctx, time.Duration(random.Int64N(int64(400*time.Millisecond))))
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (l *load) lease(ctx context.Context, random *rand.Rand) error {
	r := api.LeaseRequest{Memory: gpu.MiB(1 + random.IntN(8<<10)), Timeout: gpu.Some(20.0)}
	switch random.IntN(3) {
	case 0:
		r.TTL = gpu.Some(60.0)
	case 1:
		r.PID = os.Getpid()
	}
	began := time.Now()
	granted, err := l.c.Acquire(ctx, r)
	if err != nil {
		return err
	}
	took := time.Since(began)
	l.mu.Lock()
	l.took = append(l.took, took)
	l.mu.Unlock()
	pause(ctx, time.Duration(random.Int64N(int64(100*time.Millisecond))))
	_, err = l.c.Release(context.WithoutCancel(ctx), granted.ID, granted.Fence)
	return err
}

func (l *load) job(ctx context.Context, random *rand.Rand) error {
	j, err := l.c.Submit(ctx, l.jobRequest())
	if err != nil {
		return err
	}
	if random.IntN(4) == 0 {
		_, err = l.c.CancelJob(ctx, j.ID, "soak")
		if problem := (*api.Problem)(nil); errors.As(err, &problem) {
			err = nil // it was quicker
		}
		return err
	}
	_, err = l.c.WaitJob(ctx, j.ID)
	return err
}

func (l *load) batch(ctx context.Context, random *rand.Rand) error {
	folder, err := os.MkdirTemp(l.dir, "batch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	var in bytes.Buffer
	for i := range 1000 + random.IntN(1000) {
		fmt.Fprintf(&in, "{\"n\": %d}\n", i)
	}
	if err := os.WriteFile(filepath.Join(folder, "in.jsonl"), in.Bytes(), 0o600); err != nil {
		return err
	}
	package_, err := filepath.Abs(filepath.Join(l.o.source, "python"))
	if err != nil {
		return err
	}
	_, err = l.command(ctx, []string{"PYTHONPATH=" + package_, "PYTHONDONTWRITEBYTECODE=1"}, "run", "--input", filepath.Join(folder, "in.jsonl"), "--output", filepath.Join(folder, "out.jsonl"),
		"--memory", "1GiB", "--", "python3", filepath.Join(l.dir, "worker.py"))
	return err
}

// command runs a command of berth.
func (l *load) command(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, l.o.berth, append([]string{"--socket", l.d.Socket}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	said, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		err = fmt.Errorf("berth %s: %w: %s", args[0], err, lines[len(lines)-1])
	}
	return string(said), err
}

// ask asks a model through the front.
func (l *load) ask(ctx context.Context, random *rand.Rand) error {
	body := fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": "hello"}]}`, models[random.IntN(len(models))])
	return l.get(ctx, http.DefaultClient, http.MethodPost, "http://"+l.front+"/v1/chat/completions", body)
}

// get makes a request and reads its answer.
func (l *load) get(ctx context.Context, c *http.Client, method, at, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusInternalServerError {
		err = fmt.Errorf("%s %s: %s: %.200s", method, at, answer.Status, text)
	}
	return err
}

// order restarts a service now and then.
func (l *load) order(ctx context.Context, random *rand.Rand) error {
	pause(ctx, 10*time.Second)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := l.c.RestartService(ctx, models[random.IntN(len(models))], "soak")
	return err
}

func (l *load) query(ctx context.Context, random *rand.Rand) error {
	now := time.Now()
	exprs := []string{"gpu_temperature_celsius", "avg by (gpu) (avg_over_time(gpu_power_usage_watts[1m]))", "rate(berth_events_total[1m])"}
	_, err := l.c.QueryRange(ctx, exprs[random.IntN(len(exprs))], client.QueryRange{From: now.Add(-10 * time.Minute), To: now, Step: 5 * time.Second})
	return err
}

// page does what the page in a browser and a Prometheus do.
func (l *load) page(ctx context.Context, random *rand.Rand) error {
	recent := "/api/jobs?since=" + time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	paths := []string{"/", "/api/gpu/status/all?leases=true", "/metrics", "/api/leases", recent, "/help/batch", "/openapi.json", "/api/services"}
	path := paths[random.IntN(len(paths))]
	if random.IntN(200) == 0 { // every minute or so
		path = "/api/jobs"
	}
	return l.get(ctx, l.d.HTTP, http.MethodGet, "http://berth"+path, "")
}

// read follows events for a while.
func (l *load) read(ctx context.Context, random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(random.Int64N(int64(3*time.Second))))
	defer cancel()
	for _, err := range l.c.EventsWhere(ctx, client.EventQuery{Follow: true}) {
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// killHolder kills a program that holds a lease.
func (l *load) killHolder(ctx context.Context, random *rand.Rand) error {
	cmd := exec.Command(l.o.berth, "--socket", l.d.Socket, "exec", "--memory", "1GiB", "--", "sleep", "60")
	if err := cmd.Start(); err != nil {
		return err
	}
	pause(ctx, time.Duration(random.Int64N(int64(time.Second))))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return nil
}

// restart kills the daemon and starts it again.
func (l *load) restart(ctx context.Context) {
	for {
		pause(ctx, l.o.restarts)
		if ctx.Err() != nil {
			return
		}
		if err := l.again(); err != nil {
			l.mu.Lock()
			l.wrong["restart"] = err.Error()
			l.mu.Unlock()
			return
		}
	}
}

func (l *load) again() error {
	l.process.Lock()
	defer l.process.Unlock()
	l.setDown(true)
	defer l.setDown(false)
	l.d.Kill()
	_, err := l.d.Begin("/readyz")
	return err
}

func (l *load) setDown(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	if down {
		l.done["restart"]++
	}
}

// acquired returns how long acquires took since the last call.
func (l *load) acquired() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := l.took
	l.took = nil
	return took
}

// counted says what was done.
func (l *load) counted() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for what, n := range l.done {
		line := fmt.Sprintf("%8d  %s", n, what)
		if why := l.wrong[strings.TrimSuffix(what, ", failed")]; why != "" && strings.HasSuffix(what, ", failed") {
			line += ": " + why
		}
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[10:], b[10:]) })
	if why := l.wrong["restart"]; why != "" {
		lines = append(lines, "the daemon could not be started again: "+why)
	}
	return strings.Join(lines, "\n") + "\n"
}
