package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
)

var (
	accountRuns = flag.Int("account.runs", 3, "histories of a machine whose memory is counted")
	accountSeed = flag.Uint64("account.seed", 1, "seed of the first of them; each further one adds 1")
)

// What the API says can be leased is the formula of the documentation over what
// the simulator really uses, after each step of a history of real processes: they
// allocate for themselves, run under berth exec, are started as always beside a
// berth allocate, or nobody knows them; they use memory and crash; and the daemon
// is killed with -9 and started again.
func TestAvailableIsWhatTheDevicesHaveLeft(t *testing.T) {
	for i := range *accountRuns {
		seed := *accountSeed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, seed)
			for range 12 {
				m.step()
				m.check()
			}
		})
	}
}

const (
	countReserve   = gpu.MiB(512)
	countTolerance = gpu.MiB(64)
	countSamples   = 40 // until what is measured must be right
)

// machine is a daemon with two simulated GPUs, and processes on them.
type machine struct {
	t      *testing.T
	dir    string
	env    []string
	random *rand.Rand
	notify *net.UnixConn
	daemon *exec.Cmd
	client *client.Client
	gpus   []gpu.Device
	driver map[string]gpu.MiB // what each device uses for itself
	guests []*guest
	count  int // of names
	said   []string
}

// guest is a process that does what it is told to.
type guest struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	owner func(api.Lease) bool // reports whether a lease pays for it
	uses  map[string]gpu.MiB   // by device
}

func newMachine(t *testing.T, seed uint64) *machine {
	m := emptyMachine(t)
	m.random = rand.New(rand.NewPCG(seed, 11))
	m.serve()
	for _, s := range m.sampled(time.Time{}) {
		m.gpus = append(m.gpus, s.Device)
		m.driver[s.Device.UUID] = s.Sample.MemoryUsed.Or(0)
	}
	return m
}

// emptyMachine returns a machine on which no daemon has been started.
func emptyMachine(t *testing.T) *machine {
	dir, err := os.MkdirTemp("", "a") // short: the path of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, dir: dir, driver: map[string]gpu.MiB{}}
	if m.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path("n"), Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	m.env = append(os.Environ(), "BERTH_SOCKET="+m.path("s"), "BERTH_SIM_GUESTS="+m.path("guests"), "GORACE=atexit_sleep_ms=0", "HOME="+dir)
	if m.client, err = client.New(client.Options{Socket: m.path("s")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for len(m.guests) > 0 {
			m.crash(m.guests[0])
		}
		_ = m.daemon.Process.Kill()
		_ = m.daemon.Wait()
		m.client.Close()
		_ = m.notify.Close()
		_ = os.RemoveAll(dir)
	})
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// serve starts the daemon and waits until it is ready.
func (m *machine) serve() {
	m.daemon = exec.Command("berth", "serve", "--devices", "sim:2xrtx-4060", "--listen", "", "--state-dir", m.path("state"))
	m.daemon.Env = append(m.env, "NOTIFY_SOCKET="+m.path("n"), "BERTH_GPU_MONITOR_INTERVAL=100ms", fmt.Sprintf("BERTH_GPU_MEMORY_RESERVE_MB=%d", countReserve))
	m.ready()
}

// ready starts the daemon, and waits until it is ready.
func (m *machine) ready() {
	if err := m.daemon.Start(); err != nil {
		m.t.Fatal(err)
	}
	if _, err := m.notify.Read(make([]byte, 4096)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) say(format string, args ...any) {
	m.said = append(m.said, fmt.Sprintf(format, args...))
}

func (m *machine) name(what string) string {
	m.count++
	return fmt.Sprintf("%s-%d", what, m.count)
}

func (m *machine) device() gpu.Device { return m.gpus[m.random.IntN(len(m.gpus))] }

func (m *machine) memory() gpu.MiB { return gpu.MiB(1+m.random.IntN(20)) * 100 }

var countServices = []string{"embedder", "render_farm"}

func (m *machine) step() {
	service := countServices[m.random.IntN(len(countServices))]
	var some *guest
	if len(m.guests) > 0 {
		some = m.guests[m.random.IntN(len(m.guests))]
	}
	switch m.random.IntN(10) {
	case 0: // an application that allocates for itself
		id := m.name("app")
		g := m.start(func(l api.Lease) bool { return l.ID == id }, m.program(id))
		m.tell(g, "allocate", id, strconv.Itoa(m.device().Index), strconv.Itoa(int(m.memory())))
	case 1: // a program under berth exec
		id := m.name("exec")
		m.start(func(l api.Lease) bool { return l.Holder.Name == id }, "berth", "exec", "--name", id, "--memory", strconv.Itoa(int(m.memory()))+"MiB", "--timeout", "0", "--", m.program(id))
	case 2, 3: // an allocation for a service
		m.berth("allocate", service, strconv.Itoa(int(m.memory())), "--gpu", strconv.Itoa(m.device().Index), "--timeout", "0")
	case 4: // the service, started as always
		m.start(func(l api.Lease) bool { return strings.ReplaceAll(l.Holder.Service, "-", "_") == service }, service)
	case 5: // a stranger
		m.start(func(api.Lease) bool { return false }, m.program(m.name("stranger")))
	case 6:
		m.berth("deallocate", service, strconv.Itoa(m.device().Index))
	case 7:
		if some != nil {
			m.crash(some)
		}
	case 8:
		m.say("kill the daemon")
		_ = m.daemon.Process.Kill()
		_ = m.daemon.Wait()
		m.serve()
	}
	for range 2 {
		if len(m.guests) > 0 {
			m.use(m.guests[m.random.IntN(len(m.guests))], m.device(), m.memory())
		}
	}
}

// program makes a program with a name that no other has: a process belongs to a
// lease of a program with its name, too.
func (m *machine) program(name string) string {
	test, err := os.Executable()
	if err == nil {
		err = os.Symlink(test, m.path(guestPrefix+name))
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return m.path(guestPrefix + name)
}

// guestPrefix begins the names of programs that are guests.
const guestPrefix = "guest-"

// berth runs a command, which may be refused.
func (m *machine) berth(args ...string) {
	cmd := exec.Command("berth", args...)
	cmd.Env = m.env
	text, err := cmd.CombinedOutput()
	m.say("berth %s: %v: %s", strings.Join(args, " "), err, text)
}

// start starts a guest. A berth exec that is refused leaves none.
func (m *machine) start(owner func(api.Lease) bool, args ...string) *guest {
	g := &guest{cmd: exec.Command(args[0], args[1:]...), owner: owner, uses: map[string]gpu.MiB{}}
	g.cmd.Env = m.env
	out, err := g.cmd.StdoutPipe()
	if err == nil {
		g.in, err = g.cmd.StdinPipe()
	}
	if err == nil {
		err = g.cmd.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	g.out = bufio.NewReader(out)
	if _, err := g.out.ReadString('\n'); err != nil {
		m.say("start %v: it ended: %v", args, g.cmd.Wait())
		return nil
	}
	m.say("start %v as %d", args, g.cmd.Process.Pid)
	m.guests = append(m.guests, g)
	return g
}

// tell tells a guest what to do, and waits until it is done.
func (m *machine) tell(g *guest, order ...string) {
	if _, err := fmt.Fprintln(g.in, strings.Join(order, " ")); err != nil {
		m.t.Fatal(err)
	}
	answer, err := g.out.ReadString('\n')
	if err != nil {
		m.t.Fatal(err)
	}
	m.say("%d: %s: %s", g.cmd.Process.Pid, strings.Join(order, " "), strings.TrimSpace(answer))
}

// use lets a guest use memory of a device. All together use so little that the
// device stays in a good state.
func (m *machine) use(g *guest, d gpu.Device, memory gpu.MiB) {
	free := d.MemoryTotal*6/10 - m.driver[d.UUID]
	for _, other := range m.guests {
		if other != g {
			free -= other.uses[d.UUID]
		}
	}
	g.uses[d.UUID] = max(min(memory, free), 0)
	m.tell(g, "use", d.UUID, strconv.Itoa(int(g.uses[d.UUID])))
}

func (m *machine) crash(g *guest) {
	m.say("kill %d", g.cmd.Process.Pid)
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait() // it was killed
	m.guests = slices.DeleteFunc(m.guests, func(other *guest) bool { return other == g })
}

// sampled returns the devices when each was sampled after a moment.
func (m *machine) sampled(after time.Time) []api.Status {
	for {
		all, err := m.client.StatusAll(m.t.Context())
		if err != nil {
			m.t.Fatal(err)
		}
		if len(all.GPUs) == 2 && !slices.ContainsFunc(all.GPUs, func(s api.Status) bool { return s.Sample == nil || !s.Sample.Time.After(after) }) {
			return all.GPUs
		}
	}
}

// check holds what the API says against the formula, with the first sample that
// was taken after everything, or soon after: the daemon also has to notice who
// has ended.
func (m *machine) check() {
	after := time.Now()
	var wrong string
	for range countSamples {
		for _, s := range m.sampled(after) {
			if s.Sample.Time.After(after) {
				after = s.Sample.Time
			}
		}
		if wrong = m.wrong(); wrong == "" {
			return
		}
	}
	m.t.Fatalf("%s\n%s", wrong, strings.Join(m.said, "\n"))
}

// wrong says what is wrong about what can be leased; "" if nothing is.
func (m *machine) wrong() string {
	ctx := m.t.Context()
	leases, err := m.client.Leases(ctx)
	if err != nil {
		m.t.Fatal(err)
	}
	available, err := m.client.Available(ctx)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, d := range available.GPUs {
		want := m.available(d.GPU, leases.Leases)
		if off := d.Available - want; off > countTolerance || off < -countTolerance {
			text, _ := json.MarshalIndent(leases.Leases, "", "  ")
			return fmt.Sprintf("%s of %s can be leased, and should be %s: %+v\n%s", d.Available.Exact(), d.GPU, want.Exact(), d, text)
		}
	}
	return ""
}

// available is the formula. The leases of a service are one account: it makes no
// difference which of them pays for its processes.
func (m *machine) available(uuid string, leases []api.Lease) gpu.MiB {
	here := slices.DeleteFunc(slices.Clone(leases), func(l api.Lease) bool {
		return !slices.ContainsFunc(l.Parts, func(p api.LeasePart) bool { return p.GPU == uuid })
	})
	account := func(l api.Lease) string { return cmp.Or(l.Holder.Service, l.ID) }
	has, uses := map[string]gpu.MiB{}, map[string]gpu.MiB{}
	for _, l := range here {
		for _, p := range l.Parts {
			has[account(l)] += p.Memory // all are on one device
		}
	}
	for _, g := range m.guests {
		payer := "" // nobody
		if i := slices.IndexFunc(here, g.owner); i >= 0 {
			payer = account(here[i])
		}
		uses[payer] += g.uses[uuid]
	}
	i := slices.IndexFunc(m.gpus, func(d gpu.Device) bool { return d.UUID == uuid })
	left := m.gpus[i].MemoryTotal - countReserve - m.driver[uuid] - uses[""]
	for account, memory := range has {
		left -= max(memory, uses[account])
	}
	return max(left, 0)
}

// runGuest is the process of a guest: it allocates and uses memory as it is told
// to.
func runGuest() {
	fmt.Println("ready")
	dir := os.Getenv("BERTH_SIM_GUESTS")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		order := strings.Fields(lines.Text())
		var err error
		switch order[0] {
		case "allocate":
			err = allocateFor(order[1], order[2], order[3])
		case "use":
			file := filepath.Join(dir, order[1], strconv.Itoa(os.Getpid()))
			err = errors.Join(
				os.MkdirAll(filepath.Dir(file), 0o700),
				os.WriteFile(file+".new", fmt.Appendf(nil, `{"memory_mb":%s}`, order[2]), 0o600),
				os.Rename(file+".new", file))
		}
		fmt.Println("done:", err)
	}
}

// allocateFor allocates memory for this process, as an application does.
func allocateFor(id, gpuIndex, memory string) error {
	c, err := client.New(client.Options{Socket: os.Getenv("BERTH_SOCKET")})
	if err != nil {
		return err
	}
	defer c.Close()
	amount, err := strconv.Atoi(memory)
	if err != nil {
		return err
	}
	_, err = c.Allocate(context.Background(), api.Allocate{ID: id, Memory: gpu.MiB(amount), GPU: gpu.Ref(gpuIndex)})
	return err
}
