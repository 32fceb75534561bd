package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/test/bench/daemon"
)

// site is a daemon that is measured, with a client of root.
type site struct {
	*daemon.Daemon
	*ground
	client *client.Client
	curves []curve
	idle   float64 // the share of a core that it uses while nobody calls
}

// start starts a daemon. All users can reach its socket.
func (g *ground) start(devices, config string) (*site, error) {
	d, err := daemon.Start(daemon.Setup{Berth: g.berth, Devices: devices, Config: config})
	if err != nil {
		return nil, err
	}
	s := &site{Daemon: d, ground: g}
	if s.client, err = client.New(client.Options{Socket: d.Socket}); err == nil {
		err = os.Chmod(d.Dir, 0o755)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *site) stop() {
	if s.client != nil {
		s.client.Close()
	}
	s.Close()
}

// add adds a point to a curve, which is made if it is the first one.
func (s *site) add(name string, k kind, n float64, cost time.Duration) {
	for i := range s.curves {
		if s.curves[i].name == name {
			s.curves[i].points = append(s.curves[i].points, point{n, cost})
			return
		}
	}
	s.curves = append(s.curves, curve{name, k, []point{{n, cost}}})
}

// settle is how long a daemon has to finish what it was asked for.
const settle = 2 * time.Second

// atRest measures a second in which nobody calls.
func (s *site) atRest(n int) (err error) {
	time.Sleep(settle)
	if s.idle, err = s.Rest(s.rest); err != nil {
		return err
	}
	s.add("a second in which nobody calls", whole, float64(n), time.Duration(s.idle*float64(time.Second)))
	return nil
}

// repeat makes a call over and over, and returns what one costs the daemon beyond what it
// uses anyway.
func (s *site) repeat(once func() error) (time.Duration, error) {
	if err := once(); err != nil { // the first one warms everything up
		return 0, err
	}
	before, err := s.CPU()
	if err != nil {
		return 0, err
	}
	began, calls := time.Now(), 0
	for ; calls < 3 || time.Since(began) < s.each; calls++ {
		if err := once(); err != nil {
			return 0, err
		}
	}
	after, err := s.CPU()
	anyway := time.Duration(s.idle * float64(time.Since(began)))
	return (after - before - anyway) / time.Duration(calls), err
}

// pair measures an acquire and a release of root.
func (s *site) pair(ctx context.Context, n int) error {
	request := api.LeaseRequest{Memory: 1, Slots: gpu.Some(0), Binding: "process", Timeout: gpu.Some(0.0), Priority: gpu.Some(1)}
	cost, err := s.repeat(func() error {
		l, err := s.client.Acquire(ctx, request)
		if err == nil {
			_, err = s.client.Release(ctx, l.ID, l.Fence)
		}
		return err
	})
	s.add("an acquire and a release", call, float64(n), cost)
	return err
}

// overREST measures an acquire and a release by id, of a lease that is on disk.
func (s *site) overREST(n int) error {
	body := named(-1)
	cost, err := s.repeat(func() error {
		if err := s.Ask("POST", "/api/leases", body, nil); err != nil {
			return err
		}
		return s.Ask("DELETE", fmt.Sprint("/api/leases/", body["id"]), nil, nil)
	})
	s.add("an acquire and a release over REST", call, float64(n), cost)
	return err
}

// get measures the answer to a path.
func (s *site) get(name, path string, k kind, n int) error {
	cost, err := s.repeat(func() error { return s.Ask("GET", path, nil, nil) })
	s.add(name, k, float64(n), cost)
	return err
}

// hold acquires a lease that stays.
func (s *site) hold(i int) error {
	return s.Ask("POST", "/api/leases", named(i), nil)
}

func named(i int) map[string]any {
	return map[string]any{"id": fmt.Sprint("lease-", i), "memory_mb": 1, "slots": 0, "binding": "named", "timeout_seconds": 0}
}

// inUse is a machine of eight devices, each with a process under no lease.
const inUse = `
devices: dgx-h200
timeline:
  - {device: 0, process: {pid: 5000000, memory_mb: 1024}}
  - {device: 1, process: {pid: 5000001, memory_mb: 1024}}
  - {device: 2, process: {pid: 5000002, memory_mb: 1024}}
  - {device: 3, process: {pid: 5000003, memory_mb: 1024}}
  - {device: 4, process: {pid: 5000004, memory_mb: 1024}}
  - {device: 5, process: {pid: 5000005, memory_mb: 1024}}
  - {device: 6, process: {pid: 5000006, memory_mb: 1024}}
  - {device: 7, process: {pid: 5000007, memory_mb: 1024}}
`

func leases(ctx context.Context, g *ground) ([]curve, error) {
	scenario, err := os.CreateTemp("", "growth-*.yaml")
	if err != nil {
		return nil, err
	}
	defer os.Remove(scenario.Name())
	_, err = scenario.WriteString(inUse)
	if err = errors.Join(err, scenario.Close()); err != nil {
		return nil, err
	}
	s, err := g.start("sim:"+scenario.Name(), "")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	have := 0
	for _, n := range g.sizes() {
		for ; have < n; have++ {
			if err := s.hold(have); err != nil {
				return nil, err
			}
		}
		err := errors.Join(s.atRest(n), s.pair(ctx, n), s.overREST(n), s.get("a list of all leases", "/api/leases", whole, n), s.get("a scrape", "/metrics", whole, n),
			s.get("one lease by its id", "/api/leases/lease-0", call, n))
		if err != nil {
			return nil, err
		}
		s.End()
		if _, err := s.Begin("/api/leases/lease-0"); err != nil {
			return nil, err
		}
		started, err := s.CPU()
		if err != nil {
			return nil, err
		}
		s.add("a start, to the first answer", whole, float64(n), started)
	}
	return s.curves, nil
}

// firstUser is the uid of the first of many users.
const firstUser = 100_000

func users(ctx context.Context, g *ground) ([]curve, error) {
	if os.Geteuid() != 0 {
		return nil, errSkipped
	}
	s, err := g.start("sim:dgx-h200", "")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	have := 0
	for _, n := range g.sizes() {
		for ; have < n; have++ {
			if err := s.holdAs(firstUser+have, have); err != nil {
				return nil, err
			}
		}
		err := errors.Join(s.atRest(n), s.pair(ctx, n), s.get("a list of all leases", "/api/leases", whole, n), s.get("a scrape", "/metrics", whole, n),
			s.get("a list of all users", "/api/users", whole, n))
		if err != nil {
			return nil, err
		}
	}
	return s.curves, nil
}

// holdAs acquires a lease that stays, as another user.
func (s *site) holdAs(uid, i int) error {
	conn, err := dialAs(uid, s.Socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	mine := daemon.Daemon{HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}}
	return mine.Ask("POST", "/api/leases", named(i), nil)
}

// dialAs connects to a socket as another user. The kernel notes the user of the thread that
// connects, so only this thread changes its user, for a moment.
func dialAs(uid int, socket string) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	const keep = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep); errno != 0 {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("become user %d: %w", uid, errno)
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, 0, keep); errno != 0 {
		panic(errno) // a thread that is somebody else must not go on
	}
	f := os.NewFile(uintptr(fd), socket)
	defer f.Close()
	if err != nil {
		return nil, fmt.Errorf("connect as user %d: %w", uid, err)
	}
	return net.FileConn(f)
}

// waitingUsers is how many users wait. Each may have 256 requests in the queue.
const waitingUsers = 40

func waiting(ctx context.Context, g *ground) ([]curve, error) {
	if os.Geteuid() != 0 {
		return nil, errSkipped
	}
	var all []curve
	for _, n := range g.sizes() {
		curves, err := queue(ctx, g, n)
		if err != nil {
			return nil, err
		}
		for i, c := range curves {
			if i == len(all) {
				all = append(all, curve{name: c.name, kind: c.kind})
			}
			all[i].points = append(all[i].points, c.points...)
		}
	}
	return all, nil
}

// queue measures a daemon at which n requests wait, each for less than the one before. Most
// of them would fit, and would delay one ahead.
func queue(ctx context.Context, g *ground, n int) ([]curve, error) {
	s, err := g.start("sim:2", "gpu: {max_pipelines: 1000}\n")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	for device := range 2 {
		for id, memory := range map[string]int{"stays": 50_000, "ends": 90_000} {
			body := map[string]any{"id": fmt.Sprint(id, "-", device), "memory_mb": memory, "slots": 0, "gpu": fmt.Sprint(device), "binding": "named"}
			if err := s.Ask("POST", "/api/leases", body, nil); err != nil {
				return nil, err
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Others cannot reach what go run has built.
	program := s.Dir + "/growth"
	if text, err := os.ReadFile(self); err != nil {
		return nil, err
	} else if err := os.WriteFile(program, text, 0o755); err != nil {
		return nil, err
	}
	perUser := (n + waitingUsers - 1) / waitingUsers
	for first := 0; first < n; first += perUser {
		cmd := exec.Command(program, "wait", s.Socket, fmt.Sprintf("%d-%d", first, min(first+perUser, n)), strconv.Itoa(n))
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: uint32(firstUser + first/perUser), Gid: uint32(firstUser)}}
		in, err := cmd.StdinPipe() // it ends when this is closed
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		defer func() {
			_ = in.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		if err := s.untilWaiting(min(first+perUser, n)); err != nil { // so that they come in this order
			return nil, err
		}
	}
	for device := range 2 { // now most requests would fit
		if err := s.Ask("DELETE", fmt.Sprint("/api/leases/ends-", device), nil, nil); err != nil {
			return nil, err
		}
	}
	err = errors.Join(s.atRest(n), s.pair(ctx, n), s.get("a list of all requests", "/api/leases", whole, n), s.get("a scrape", "/metrics", whole, n))
	return s.curves, err
}

// untilWaiting returns when so many requests wait.
func (s *site) untilWaiting(want int) error {
	waiting := 0
	for began := time.Now(); waiting < want; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 5*time.Minute {
			return fmt.Errorf("only %d of %d requests wait", waiting, want)
		}
		r, err := s.HTTP.Get("http://berth/metrics")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close() // it was read
		if err != nil {
			return err
		}
		_, length, _ := strings.Cut(string(text), "\nberth_queue_length ")
		_, _ = fmt.Sscan(length, &waiting)
	}
	return nil
}

// beWaiting asks for leases that it does not get, from one number to another, of so many in
// all, until its input ends.
func beWaiting(socket, which, all string) error {
	var from, to, most int
	if _, err := fmt.Sscanf(which+" "+all, "%d-%d %d", &from, &to, &most); err != nil {
		return err
	}
	c, err := client.New(client.Options{Socket: socket})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var asked sync.WaitGroup
	const largest, smallest = 140_000, 5_000
	for n := from; n < to; n++ {
		asked.Go(func() {
			_, _ = c.Acquire(ctx, api.LeaseRequest{Memory: gpu.MiB(largest - n*(largest-smallest)/most), Slots: gpu.Some(0), TTL: gpu.Some(600.0), Timeout: gpu.Some(3600.0)})
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	asked.Wait()
	return nil
}

// tasks measures a user with a job of n tasks.
func tasks(ctx context.Context, g *ground) ([]curve, error) {
	s, err := g.start("sim:2", "")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	for _, n := range g.sizes() {
		if err := s.submitted(ctx, n); err != nil {
			return nil, err
		}
	}
	return s.curves, nil
}

// submitted measures a job of n tasks, from its submit until it is cancelled.
func (s *site) submitted(ctx context.Context, n int) error {
	var job struct {
		ID string `json:"id"`
	}
	spec := map[string]any{"name": "tasks", "command": []string{"true"}, "array": fmt.Sprint("1-", n), "lease": map[string]any{"memory_mb": 1024}, "begin": time.Now().AddDate(0, 6, 0)}
	once := func(name string, k kind, do func() error) error {
		before, err := s.CPU()
		if err == nil {
			err = do()
		}
		if err != nil {
			return err
		}
		after, err := s.CPU()
		s.add(name, k, float64(n), after-before)
		return err
	}
	err := once("a submit", whole, func() error { return s.Ask("POST", "/api/jobs", spec, &job) })
	if err != nil {
		return err
	}
	err = errors.Join(s.atRest(n), s.pair(ctx, n), s.get("a list of all jobs", "/api/jobs", whole, n), s.get("a job with all its tasks", "/api/jobs/"+job.ID, whole, n),
		s.get("one task", "/api/jobs/"+job.ID+".1", call, n), s.get("a scrape", "/metrics", whole, n))
	if err != nil {
		return err
	}
	one, is := "/api/jobs/"+job.ID+".1", map[bool]string{true: "/hold", false: "/unhold"}
	held := false
	cost, err := s.repeat(func() error {
		held = !held
		return s.Ask("POST", one+is[held], nil, nil)
	})
	if err != nil {
		return err
	}
	s.add("a task is held, or let go", call, float64(n), cost)
	return once("a cancel of the job", whole, func() error { return s.Ask("POST", "/api/jobs/"+job.ID+"/cancel", nil, nil) })
}

func events(ctx context.Context, g *ground) ([]curve, error) {
	s, err := g.start("sim:h200", "")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	reading, end := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer func() { end(); reader.Wait() }()
	reader.Go(func() {
		for range s.client.Events(reading, 0, true) {
		}
	})
	time.Sleep(settle)
	if s.idle, err = s.Rest(s.rest); err != nil {
		return nil, err
	}
	for _, rate := range g.sizes() {
		reached, cost, err := s.happen(ctx, rate)
		if err != nil {
			return nil, err
		}
		s.add("a second, without what it costs at rest", whole, reached, cost)
	}
	return s.curves, nil
}

// workers is how many clients cause events.
const workers = 4

// happen causes events at a rate: leases that come and go. It returns the rate that was
// reached, and what a second costs the daemon beyond what it uses anyway.
func (s *site) happen(ctx context.Context, rate int) (reached float64, cost time.Duration, err error) {
	length := max(s.rest, time.Duration(4/float64(rate)*float64(time.Second)))
	pairs := int(length.Seconds() * float64(rate) / 2)
	before, err := s.CPU()
	if err != nil {
		return 0, 0, err
	}
	var mu sync.Mutex
	began, next := time.Now(), 0
	turn := func() (wait time.Duration, more bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return time.Until(began.Add(time.Duration(float64(next) * 2 / float64(rate) * float64(time.Second)))), next <= pairs
	}
	var failed [workers]error
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for {
				wait, more := turn()
				if !more {
					return
				}
				time.Sleep(wait)
				l, err := s.client.Acquire(ctx, api.LeaseRequest{Memory: 1, Slots: gpu.Some(0), Binding: "process", Timeout: gpu.Some(0.0)})
				if err == nil {
					_, err = s.client.Release(ctx, l.ID, l.Fence)
				}
				if err != nil {
					failed[w] = err
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	after, err := s.CPU()
	if err = errors.Join(append(failed[:], err)...); err != nil {
		return 0, 0, err
	}
	perSecond := time.Duration(float64(after-before) / took.Seconds())
	return float64(2*pairs) / took.Seconds(), perSecond - time.Duration(s.idle*float64(time.Second)), nil
}

// mostSimulated is how many devices the simulator makes.
const mostSimulated = 256

func devices(ctx context.Context, g *ground) ([]curve, error) {
	var all []curve
	for _, n := range []int{1, 4, 16, 64, mostSimulated} {
		if n > g.most {
			break
		}
		curves, err := machine(ctx, g, n)
		if err != nil {
			return nil, err
		}
		for i, c := range curves {
			if i == len(all) {
				all = append(all, curve{name: c.name, kind: c.kind})
			}
			all[i].points = append(all[i].points, c.points...)
		}
	}
	return all, nil
}

// machine measures a daemon with n devices.
func machine(ctx context.Context, g *ground, n int) ([]curve, error) {
	s, err := g.start(fmt.Sprint("sim:", n), "")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	err = errors.Join(s.atRest(n), s.pair(ctx, n), s.get("the state of all devices, with the links of every two", "/api/gpu/status/all", pairs, n), s.get("a scrape", "/metrics", whole, n))
	return s.curves, err
}
