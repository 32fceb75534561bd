package desk

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/sim"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// office is a desk over simulated devices, each read once, with the real ledger
// and an MPS that does what the test says.
type office struct {
	*Desk
	parts Parts
	mps   *pool
	stop  func() // stops the ledger

	mu      sync.Mutex // guards what follows
	onEvent func(gpu.Event)
}

// open makes an office. MPS takes its devices for whole ones of NVIDIA.
func open(t *testing.T, devices string) *office {
	t.Helper()
	return openWith(t, devices, func(b device.Backend) device.Backend { return nvidia{b} })
}

// openWith returns a desk with simulated devices that are made into others.
func openWith(t *testing.T, devices string, made func(device.Backend) device.Backend) *office {
	t.Helper()
	backend, err := sim.Open(devices, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	o := &office{mps: &pool{uses: map[uint64]bool{}}}
	book, err := ledger.Open(ledger.Options{
		Settings:  quota.Settings{Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 2} }},
		Processes: process.Proc(),
		Open:      func(func(journal.Entry) error) (journal.Journal, error) { return journal.Forgetful(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	book.Subscribe(ledger.Hooks{Event: o.tell})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = book.Run(ctx) }()
	o.stop = func() { cancel(); <-done }
	t.Cleanup(o.stop)
	m := monitor.New([]device.Backend{made(backend)}, monitor.Settings{}, monitor.Keepers{})
	m.Subscribe(monitor.Hooks{Reading: func(r monitor.Reading) {
		book.Observe(placement.Observation{Device: r.Device, Sample: &r.Sample, State: r.State, Health: r.Health, Reason: r.Reason})
	}})
	for read := false; !read; { // a starved machine may miss the deadline of a reading
		if err := m.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		read = !slices.ContainsFunc(m.Readings(), func(r monitor.Reading) bool { return !r.Sampled })
	}
	o.parts = Parts{
		Monitor: m, Ledger: book, Peaks: peaks.New(), Processes: process.Proc(), Users: users.New(users.Lookup, 0), MPS: o.mps,
		Config:  gpuConfig(config.GPU{Context: 500, MPS: "on"}),
		Publish: func(gpu.Event) {}, Note: func() string { return "No GPU was found." },
	}
	o.Desk = New(o.parts)
	return o
}

// remake makes the desk of an office anew, with its parts as they are now.
func (o *office) remake() { *o.Desk = *New(o.parts) }

// gpuConfig returns a configuration with these settings of GPUs.
func gpuConfig(g config.GPU) func() *config.Config {
	return func() *config.Config { return &config.Config{GPU: g} }
}

func (o *office) tell(n lease.Notice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.onEvent != nil {
		o.onEvent(n.Whole())
	}
}

// listen calls found for what the ledger tells from now on; nil: nobody listens.
func (o *office) listen(found func(gpu.Event)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onEvent = found
}

// nvidia lets simulated devices be whole ones of NVIDIA.
type nvidia struct{ device.Backend }

func (n nvidia) Scan(ctx context.Context) ([]device.Device, error) {
	all, err := n.Backend.Scan(ctx)
	for i, d := range all {
		all[i] = whole{d}
	}
	return all, err
}

type whole struct{ device.Device }

func (w whole) Describe() gpu.Device {
	d := w.Device.Describe()
	d.Vendor, d.Path = gpu.NVIDIA, fmt.Sprint("/dev/nvidia", d.Index)
	return d
}

// pool is an MPS that knows who uses it.
type pool struct {
	missing error        // why there is none; nil: there is
	start   func() error // is called for every use; nil: it succeeds

	mu   sync.Mutex // guards what follows
	uses map[uint64]bool
}

func (p *pool) Available() error         { return p.missing }
func (p *pool) Serves([]process.ID) bool { return false }

func (p *pool) Use(_ context.Context, uuid string, _ int, fence uint64) (string, error) {
	p.mu.Lock()
	p.uses[fence] = true
	p.mu.Unlock()
	if p.start != nil {
		if err := p.start(); err != nil {
			return "", err
		}
	}
	return "/pipe/" + uuid, nil
}

func (p *pool) Release(fence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.uses, fence)
}

func (p *pool) used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.uses)
}

// self is this process as a caller.
func self(t *testing.T) Caller {
	t.Helper()
	id, err := process.Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	boot, err := process.Proc().Boot()
	if err != nil {
		t.Fatal(err)
	}
	return Caller{
		Actor:  access.Actor{UID: os.Geteuid(), User: "ada", Door: access.Socket, Role: access.User},
		Holder: lease.Holder{UID: os.Geteuid(), User: "ada", PID: id.PID, Start: id.Start, Boot: boot, Name: "test"},
	}
}
