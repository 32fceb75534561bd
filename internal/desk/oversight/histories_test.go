package oversight

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/device/sim"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
	"github.com/berth-gpu/berth/internal/enforce/throttle"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/archive"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

var histories = flag.Int("oversight.histories", 12, "play this many random histories")

// Whatever happens to two GPUs in whichever order: berth grants nothing on one in
// quarantine or drained, no state flaps, no turn stops a process for longer than
// it may, and when the heat is over nothing is held back and the power limits are
// what they were. Each history has faults, heat, hangs, checks, drains, leases,
// policies that change and daemons that are killed, in simulated time.
func TestHistories(t *testing.T) {
	dir := quickDir(t)
	var kept seen
	for seed := range uint64(*histories) {
		synctest.Test(t, func(t *testing.T) {
			h := begin(t, dir, seed)
			h.live()
			h.end()
			kept.add(h.seen)
		})
		if t.Failed() {
			t.Fatalf("history %d", seed)
		}
	}
	t.Logf("%d histories: %+v", *histories, kept)
	if kept.grants == 0 || kept.refusals == 0 || kept.quarantines == 0 || kept.drains == 0 || kept.paced == 0 || kept.lowered == 0 || kept.killed == 0 {
		t.Errorf("something never happened: %+v", kept)
	}
}

// seen counts what happened, so that a test of nothing is noticed.
type seen struct{ grants, refusals, quarantines, drains, paced, lowered, killed int }

func (s *seen) add(o seen) {
	s.grants += o.grants
	s.refusals += o.refusals
	s.quarantines += o.quarantines
	s.drains += o.drains
	s.paced += o.paced
	s.lowered += o.lowered
	s.killed += o.killed
}

const (
	historyLasts = 12 * time.Minute // in which things happen
	historyRests = 45 * time.Minute // afterwards
	historyTick  = 5 * time.Second  // from one sample to the next, and then slowTick
	slowTick     = 20 * time.Second
	historyGPUs  = 2
	fullPower    = 115 // watts, of the cards
)

// history is a machine, the parts of a daemon that watch it, and what they did.
type history struct {
	t       *testing.T
	random  *rand.Rand // of the test; not of what runs beside it
	seed    uint64
	file    string
	health  health.Rules
	backend *sim.Backend
	monitor *monitor.Monitor
	ledger  *ledger.Ledger
	drains  *drains.Drains
	stop    func()
	leases  []*lease.Lease
	serial  int

	mu       sync.Mutex // guards what follows
	throttle *throttle.Throttle
	pacer    *turner
	halt     func() // ends the throttle
	policy   slowdown.Policy
	checks   map[string]int       // by UUID: that began
	checking map[string]bool      // by UUID: one runs
	since    map[string]time.Time // by UUID: when the state began
	shut     map[string]time.Time // by UUID: since when it is in quarantine
	drained  map[string]time.Time // by UUID
	seen     seen
}

// timeline draws what happens to the devices.
func timeline(r *rand.Rand) string {
	var b strings.Builder
	at := func() time.Duration { return time.Duration(r.Int64N(int64(historyLasts))).Round(time.Second) }
	entry := func(format string, args ...any) {
		fmt.Fprintf(&b, "  - {at: %s, device: %d, %s}\n", at(), r.IntN(historyGPUs), fmt.Sprintf(format, args...))
	}
	for range 4 + r.IntN(16) {
		lasts := time.Duration(1+r.IntN(240)) * time.Second
		switch r.IntN(10) {
		case 0, 1, 2:
			entry("for: %s, load: %d", lasts, 20+r.IntN(81))
		case 3:
			entry("for: %s, load: 100, ambient_celsius: %d", lasts, 30+r.IntN(30))
		case 4:
			entry("for: %s, load: 100, cooling: %.2f", lasts, 0.1+0.9*r.Float64())
		case 5:
			entry("fault: {class: %s, name: bad luck}", []string{"device", "link", "driver", "program"}[r.IntN(4)])
		case 6:
			entry("ecc: {uncorrected: 1}")
		case 7:
			entry("for: %s, lost: true", lasts/4+time.Second)
		case 8:
			entry("for: %s, hang: true", lasts/4+time.Second)
		case 9:
			for burst, on := at(), r.IntN(historyGPUs); burst < historyLasts; burst += lasts/2 + 4*time.Second {
				fmt.Fprintf(&b, "  - {at: %s, for: %s, device: %d, load: 100, ambient_celsius: 42}\n", burst, lasts/4+2*time.Second, on)
			}
		}
	}
	fmt.Fprintf(&b, "  - {at: %s, device: all, load: 0, ambient_celsius: 25, cooling: 1}\n", historyLasts)
	return fmt.Sprintf("devices: %dxrtx-4060\ntimeline:\n%s", historyGPUs, b.String())
}

// quickDir returns a folder in memory where there is one: the daemon waits for the
// disk before each step, and so would every history.
func quickDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "berth-histories-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// begin opens a machine and starts what watches it.
func begin(t *testing.T, dir string, seed uint64) *history {
	h := &history{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), policy: slowdown.Power, file: filepath.Join(dir, fmt.Sprintf("throttle-%d.json", seed)),
		checks: map[string]int{}, checking: map[string]bool{}, since: map[string]time.Time{}, shut: map[string]time.Time{}, drained: map[string]time.Time{},
	}
	script := filepath.Join(dir, "history.yaml")
	if err := os.WriteFile(script, []byte(timeline(h.random)), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.backend, err = sim.Open(script, sim.Options{}); err != nil {
		t.Fatal(err)
	}
	h.drains, _ = drains.Open("")
	h.ledger, err = ledger.Open(ledger.Options{
		Settings:  quota.Settings{Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 8} }},
		Processes: process.Proc(), CPUs: 4,
		Open: func(func(journal.Entry) error) (journal.Journal, error) { return journal.Forgetful(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.ledger.Subscribe(ledger.Hooks{Event: h.granted})
	defaults := config.Default()
	watch := New(Options{
		Leases: h.ledger, Peaks: peaks.New(), Archive: archive.New(), Energy: meters(), Watchdog: nobody{}, MPS: nobody{}, Batches: nobody{},
		Processes: process.Proc(), Names: users.New(users.Lookup, 0), Idle: idlers(), Config: func() *config.Config { return &defaults }, Drains: h.drains, Throttle: h.observe,
	})
	h.health = health.DefaultRules()
	h.health.Check = seed%2 == 0
	h.monitor = monitor.New([]device.Backend{h.backend}, monitor.Settings{Interval: historyTick, Health: h.health}, monitor.Keepers{})
	h.monitor.Subscribe(monitor.Hooks{Event: h.told, Reading: func(r monitor.Reading) {
		watch.Observe(r)
		if r.CheckDue {
			h.due(r.Device)
		}
	}})
	h.drains.Tell(drains.Hooks{Changed: h.monitor.Refresh, Ended: func(uuid string, _ health.Drain) { h.opened(uuid) }})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	h.start()
	running.Go(func() { _ = h.ledger.Run(ctx) })
	running.Go(func() { _ = h.monitor.Run(ctx) })
	running.Go(func() { h.drains.Run(ctx) })
	h.stop = func() {
		h.halt()
		cancel()
		running.Wait()
		_ = h.ledger.Close()
		_ = h.backend.Close()
	}
	return h
}

// start starts a Throttle, as a daemon does.
func (h *history) start() {
	turns := &turner{t: h.t, held: map[uint64]*pace.Controller{}, paced: &h.seen.paced}
	dead := false // guarded by mu
	acts, damage := throttle.Open(throttle.Options{
		Settings: h.settings(), Devices: h.monitor, Leases: h.ledger, Pacer: turns, File: h.file, Event: h.told,
		Denied: func(string) string {
			if h.mu.Lock(); dead {
				defer h.mu.Unlock()
				return "it was killed" // so that it gives nothing back
			}
			h.mu.Unlock()
			return ""
		},
	})
	if damage != nil {
		h.t.Fatal(damage)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	var running sync.WaitGroup
	running.Go(func() { acts.Run(ctx) })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.throttle, h.pacer = acts, turns
	h.halt = func() { cancel(); running.Wait() }
	kill := h.halt
	turns.kill = func() {
		h.mu.Lock()
		dead = true
		h.mu.Unlock()
		kill()
	}
}

func (h *history) settings() *config.Config {
	c := config.Default()
	c.GPU.Throttle = string(h.policy)
	return &c
}

// observe passes a reading to the Throttle that lives.
func (h *history) observe(r monitor.Reading) {
	h.mu.Lock()
	acts := h.throttle
	h.mu.Unlock()
	acts.Observe(r)
}

// due checks a device, with an outcome that depends on the history alone.
func (h *history) due(d gpu.Device) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.checking[d.UUID] {
		return
	}
	h.checking[d.UUID] = true
	h.checks[d.UUID]++
	r := rand.New(rand.NewPCG(h.seed+1, uint64(1000*d.Index+h.checks[d.UUID])))
	took := time.Duration(r.IntN(60)) * time.Second
	outcome := []proof.Verdict{proof.Passed, proof.Passed, proof.Failed, proof.Unasked}[r.IntN(4)]
	began := time.Now()
	time.AfterFunc(took, func() {
		h.monitor.Checked(d.UUID, began, outcome, "as drawn")
		h.mu.Lock()
		defer h.mu.Unlock()
		h.checking[d.UUID] = false
	})
}

// told takes in an event about a device.
func (h *history) told(e gpu.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e.Code {
	case gpu.EventDeviceQuarantined:
		h.shut[e.GPU] = e.Time
		h.seen.quarantines++
	case gpu.EventDeviceProbation:
		delete(h.shut, e.GPU)
	case gpu.EventPowerLimit:
		if e.Data["step"] == string(slowdown.Lowered) {
			h.seen.lowered++
		}
	}
	if e.Is(gpu.EventStateChange) {
		from, to := gpu.State(e.Data["from"].(string)), gpu.State(e.Data["to"].(string))
		hold := 30 * time.Second
		if from == gpu.Critical {
			hold = time.Minute
		}
		away := from == gpu.Unavailable || to == gpu.Unavailable
		if began := h.since[e.GPU]; !away && from.Worse(to) && !began.IsZero() && e.Time.Sub(began) < hold {
			h.t.Errorf("%s left %s for %s after %v", e.GPU, from, to, e.Time.Sub(began))
		}
		if h.since[e.GPU] = e.Time; away {
			delete(h.since, e.GPU) // it goes on where it was
		}
	}
}

// granted checks a grant: it is on no device that was closed before this moment.
func (h *history) granted(e lease.Notice) {
	if e.Code != gpu.EventGranted {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen.grants++
	if since, shut := h.shut[e.GPU]; shut && since.Before(e.Time) {
		h.t.Errorf("a grant on %s, which has been in quarantine for %v", e.GPU, e.Time.Sub(since))
	}
	if since, drained := h.drained[e.GPU]; drained {
		h.t.Errorf("a grant on %s, which has been drained for %v", e.GPU, e.Time.Sub(since))
	}
}

func (h *history) opened(uuid string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.drained, uuid)
}

// live lets things happen.
func (h *history) live() {
	until := time.Now().Add(historyLasts)
	for time.Now().Before(until) {
		time.Sleep(time.Duration(1+h.random.IntN(30)) * time.Second)
		synctest.Wait()
		h.step()
		synctest.Wait()
	}
}

// step does one thing that somebody may do.
func (h *history) step() {
	uuid := fmt.Sprintf("SIM-rtx-4060-%d", h.random.IntN(historyGPUs))
	switch h.random.IntN(12) {
	case 0, 1, 2, 3:
		h.acquire(0)
	case 4:
		go h.acquire(time.Duration(1+h.random.IntN(120)) * time.Second)
	case 5, 6:
		h.mu.Lock()
		leases := h.leases
		if len(leases) > 0 {
			h.leases = leases[1:]
		}
		h.mu.Unlock()
		if len(leases) > 0 {
			h.release(leases[0])
		}
	case 7:
		drain := health.Drain{By: "ada", Since: time.Now()}
		if h.random.IntN(2) == 0 {
			drain.Until = time.Now().Add(time.Duration(10+h.random.IntN(200)) * time.Second)
		}
		if err := h.drains.Drain(uuid, drain); err != nil {
			h.t.Error(err)
		}
		h.mu.Lock()
		h.drained[uuid] = drain.Since // from here on: the book has heard of it
		h.seen.drains++
		h.mu.Unlock()
	case 8, 9:
		h.opened(uuid)
		if _, _, err := h.drains.Undrain(uuid); err != nil {
			h.t.Error(err)
		}
	case 10:
		h.policy = []slowdown.Policy{slowdown.Advise, slowdown.Slots, slowdown.Pace, slowdown.Power, slowdown.Power}[h.random.IntN(5)]
		h.throttle.Configure(h.settings())
	case 11: // kill -9 of the daemon, and a new one
		h.pacer.kill()
		h.start()
		h.seen.killed++
	}
}

func (h *history) acquire(wait time.Duration) {
	h.mu.Lock()
	h.serial++
	r := lease.Request{
		ID: fmt.Sprintf("job-%d", h.serial), Holder: lease.Holder{User: "ada"}, Binding: lease.ByTTL, TTL: 24 * time.Hour,
		Memory: 512, Slots: 1, Wait: gpu.Some(wait), By: access.Daemon(),
	}
	h.mu.Unlock()
	got, err := h.ledger.Acquire(h.t.Context(), r)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.seen.refusals++
		return
	}
	h.leases = append(h.leases, got.Lease)
}

func (h *history) release(l *lease.Lease) {
	if _, err := h.ledger.Release(h.t.Context(), lease.Name{ID: l.ID}, l.Fence, access.Daemon()); err != nil {
		h.t.Errorf("release %s: %v", l.ID, err)
	}
}

// end lets the machine cool down and checks that nothing of it is held back.
func (h *history) end() {
	h.monitor.Configure(monitor.Settings{Interval: slowTick, Health: h.health})
	time.Sleep(historyRests)
	synctest.Wait()
	devices, err := h.backend.Scan(h.t.Context())
	if err != nil || len(devices) != historyGPUs {
		h.t.Fatalf("%d devices: %v", len(devices), err)
	}
	for _, d := range devices {
		limits, err := d.(device.Governor).PowerLimits(h.t.Context())
		if err != nil || limits.Now != fullPower {
			h.t.Errorf("in the end the power limit of %s is %g W: %v", d.Describe().UUID, limits.Now, err)
		}
	}
	if n := h.pacer.count(); n > 0 {
		h.t.Errorf("in the end %d leases are held back", n)
	}
	h.stop()
}

// turner takes the turns of leases without processes, and checks each.
type turner struct {
	t     *testing.T
	kill  func()
	paced *int

	mu   sync.Mutex // guards what follows
	held map[uint64]*pace.Controller
}

func (p *turner) Hold(h pace.Hold) error {
	fence, share := h.Fence, h.Share
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[fence] == nil {
		p.held[fence] = new(pace.Controller)
	}
	p.held[fence].Hold(share)
	*p.paced++
	for range 3 {
		if turn := p.held[fence].Next(); turn.Pause < 0 || turn.Pause > pace.LongestPause || turn.Run < pace.LeastRun {
			p.t.Errorf("held to %g, the turn is %+v", share, turn)
		}
	}
	return nil
}

func (p *turner) Let(fence uint64, _ gpu.By, _ ...pace.Source) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, fence)
	return true
}

func (p *turner) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}

// nobody is the keepers that a history has no use for.
type nobody struct{}

func (nobody) Serves([]process.ID) bool                                         { return false }
func (nobody) Release(uint64)                                                   {}
func (nobody) Ended(*lease.Lease, time.Time)                                    {}
func (nobody) Look(gpu.Device, time.Time, []lease.Holding, []watchdog.Stranger) {}
func (nobody) Stop(gpu.Device, time.Time, *watchdog.Halt, []lease.Holding)      {}
