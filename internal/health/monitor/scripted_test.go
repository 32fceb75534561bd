package monitor_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// scripted is a backend for what the simulator does not do: drivers that hang
// or fail in Scan and Watch, answers to the degree, and counting calls.
type scripted struct {
	scan  func(context.Context) ([]device.Device, error)
	watch func(context.Context, func(device.Fault)) error
}

func (b *scripted) Name() string { return "scripted" }

func (b *scripted) Scan(ctx context.Context) ([]device.Device, error) { return b.scan(ctx) }

func (b *scripted) Watch(ctx context.Context, found func(device.Fault)) error {
	if b.watch == nil {
		return device.ErrUnsupported
	}
	return b.watch(ctx, found)
}

func (b *scripted) Close() error { return nil }

// card is a device of scripted.
type card struct {
	index int
	fast  func(*gpu.Sample) error // nil: 50 °C
	slow  func(*gpu.Slow) error   // nil: nothing to tell
	asked atomic.Int64            // fast calls
}

func (c *card) uuid() string { return fmt.Sprintf("GPU-%d", c.index) }

func (c *card) Describe() gpu.Device {
	return gpu.Device{UUID: c.uuid(), Index: c.index, Name: "NVIDIA H200", MemoryTotal: 143771}
}

func (c *card) Fast(_ context.Context, into *gpu.Sample) error {
	c.asked.Add(1)
	if c.fast == nil {
		into.Temperature = gpu.Some(gpu.Celsius(50))
		return nil
	}
	return c.fast(into)
}

func (c *card) Slow(_ context.Context, into *gpu.Slow) error {
	if c.slow == nil {
		return nil
	}
	return c.slow(into)
}

// with makes a backend of cards.
func with(cards ...*card) *scripted {
	return &scripted{scan: func(context.Context) ([]device.Device, error) {
		var found []device.Device
		for _, c := range cards {
			found = append(found, c)
		}
		return found, nil
	}}
}

// script answers with one temperature per second from now on; the last one
// stays.
func script(celsius ...float64) func(*gpu.Sample) error { return scriptEvery(time.Second, celsius...) }

// scriptEvery is script with another time from one temperature to the next.
func scriptEvery(interval time.Duration, celsius ...float64) func(*gpu.Sample) error {
	begun := time.Now()
	return func(s *gpu.Sample) error {
		i := min(int(time.Since(begun)/interval), len(celsius)-1)
		s.Temperature = gpu.Some(gpu.Celsius(celsius[i]))
		return nil
	}
}

// notes is who is told.
type notes struct {
	mu       sync.Mutex
	begun    time.Time
	events   []gpu.Event
	readings map[string]int // by UUID
	costs    []monitor.Cost
}

func (n *notes) hooks() monitor.Hooks {
	n.begun, n.readings = time.Now(), map[string]int{}
	return monitor.Hooks{
		Event: func(e gpu.Event) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, e)
		},
		Reading: func(r monitor.Reading) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.readings[r.Device.UUID]++
		},
		Cost: func(c monitor.Cost) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.costs = append(n.costs, c)
		},
	}
}

// told returns a monitor that calls hooks.
func told(backends []device.Backend, s monitor.Settings, hooks monitor.Hooks) *monitor.Monitor {
	m := monitor.New(backends, s, monitor.Keepers{})
	m.Subscribe(hooks)
	return m
}

// told lists the events about a device, or about none for "", each as seconds
// since the start and code, with the states of a state change and the codes of what
// happened with it.
func (n *notes) told(uuid string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []string
	for _, e := range n.events {
		if e.GPU != uuid {
			continue
		}
		text := fmt.Sprintf("%g %s", e.Time.Sub(n.begun).Round(time.Millisecond).Seconds(), e.Code)
		if e.Is(gpu.EventStateChange) {
			text += fmt.Sprintf(" %s→%s", e.Data["from"], e.Data["to"])
		}
		for _, code := range e.Also {
			text += " +" + string(code)
		}
		list = append(list, text)
	}
	return list
}

// after is how long it is since the start, for answers that change with time.
func (n *notes) after() time.Duration { return time.Since(n.begun) }

func (n *notes) sampled(uuid string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.readings[uuid]
}

// wantTold compares what was told with lines.
func wantTold(t *testing.T, n *notes, uuid string, want ...string) {
	t.Helper()
	if got := n.told(uuid); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("told about %q:\n  %s\nwant:\n  %s", uuid, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// start runs a monitor until the returned function is called, which waits for
// Run to return.
func start(t *testing.T, m *monitor.Monitor) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// find returns the reading of a device that must be there.
func find(t *testing.T, m *monitor.Monitor, ref string) monitor.Reading {
	t.Helper()
	r, ok := m.Find(ref)
	if !ok {
		t.Fatalf("device %q is not there", ref)
	}
	return r
}

// settle lets seconds pass and everything that is due happen.
func settle(seconds float64) {
	time.Sleep(time.Duration(seconds * float64(time.Second)))
}
