package slice

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

var (
	start    = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	ordinary = Shape{Consumable: true, Taints: true}
	old      = Shape{} // Kubernetes 1.34 and 1.35
)

// machine is a daemon whose devices a test changes.
type machine struct{ Facts }

// h200s returns a machine with devices of 143771 MiB, of which 512 are reserved.
func h200s(n int) *machine {
	m := &machine{Facts{Context: 600}}
	for i := range n {
		uuid := fmt.Sprintf("SIM-h200-%d", i)
		m.Status = append(m.Status, api.Status{
			Device: gpu.Device{UUID: uuid, Index: i, Name: "NVIDIA H200", Vendor: gpu.Simulated, Backend: "sim", MemoryTotal: 143771},
			State:  gpu.Optimal, Health: gpu.Healthy, Slots: api.Slots{Capacity: 4, Usable: 4},
		})
		m.Available = append(m.Available, api.DeviceAvailable{GPU: uuid, Total: 143771, Limit: 143771, Reserve: 512, State: gpu.Optimal, Health: gpu.Healthy})
	}
	return m
}

// lease adds a lease; a pod makes it one of a claim.
func (m *machine) lease(device int, memory gpu.MiB, slots int, pod string) *api.Lease {
	l := api.Lease{ID: fmt.Sprint("lease-", len(m.Leases)), State: "active", Binding: "named",
		Parts: []api.LeasePart{{GPU: m.Status[device].Device.UUID, Memory: memory, Slots: slots}}}
	if pod != "" {
		l.Scope = []string{"pod" + pod}
	}
	m.Leases = append(m.Leases, l)
	return &m.Leases[len(m.Leases)-1]
}

// look is what a publisher said.
type look struct {
	devices []resourcev1.Device
	changed bool
}

func (l look) names() string {
	var names []string
	for _, d := range l.devices {
		names = append(names, d.Name)
	}
	return strings.Join(names, " ")
}

// holds returns the memory and the slots of a device, as in "143259Mi 4".
func (l look) holds(n int) string {
	memory, slots := l.devices[n].Capacity["memory"], l.devices[n].Capacity["slots"]
	return memory.Value.String() + " " + slots.Value.String()
}

// marks returns the taints of a device, as in "lost:NoSchedule".
func (l look) marks(n int) string {
	var marks []string
	for _, t := range l.devices[n].Taints {
		mark := strings.TrimPrefix(t.Key, "gpu.berth.dev/")
		if t.Value != "" {
			mark += "=" + t.Value
		}
		marks = append(marks, mark+":"+string(t.Effect))
	}
	return strings.Join(marks, " ")
}

// next asks for what to publish some seconds after the start, and checks that an API
// server takes it.
func next(t *testing.T, p *Publisher, seconds float64, m *machine, s Shape) look {
	t.Helper()
	devices, changed := p.Next(start.Add(time.Duration(seconds*float64(time.Second))), m.Facts, s)
	if problems := broken(devices, s); len(problems) > 0 {
		t.Errorf("after %v s an API server refuses it: %v", seconds, problems)
	}
	return look{devices, changed}
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestOneDevice(t *testing.T) {
	p := New("node-1")
	l := next(t, p, 0, h200s(1), ordinary)
	if !l.changed || len(l.devices) != 1 {
		t.Fatalf("published %+v", l)
	}
	want(t, "name", l.devices[0].Name, "sim-h200-0")
	want(t, "capacity", l.holds(0), "143259Mi 4")
	memory, slots := l.devices[0].Capacity["memory"], l.devices[0].Capacity["slots"]
	for _, c := range []struct {
		what      string
		capacity  resourcev1.DeviceCapacity
		ask, gets string
		fits      bool
	}{
		{"memory that nobody names", memory, "", "143259Mi", true},
		{"some memory", memory, "8Gi", "8Gi", true},
		{"half a MiB more", memory, "8589934593", "8193Mi", true},
		{"little memory", memory, "1Mi", "600Mi", true},
		{"too much memory", memory, "200Gi", "200Gi", false},
		{"slots that nobody names", slots, "", "1", true},
		{"no slots", slots, "0", "1", true},
		{"all slots", slots, "4", "4", true},
		{"too many slots", slots, "5", "5", false},
	} {
		var ask *resource.Quantity
		if c.ask != "" {
			q := resource.MustParse(c.ask)
			ask = &q
		}
		got, fits := consumed(c.capacity, ask)
		if fits != c.fits || got.Cmp(resource.MustParse(c.gets)) != 0 {
			t.Errorf("%s: %s, fits %v; want %s, %v", c.what, got.String(), fits, c.gets, c.fits)
		}
	}
	if again := next(t, p, 10, h200s(1), ordinary); again.changed {
		t.Error("the same facts are published again")
	}
}

// The scheduler takes the first device that fits, so what is left of a device with
// other users is sold last.
func TestOrder(t *testing.T) {
	p, m := New("node-1"), h200s(3)
	slices.Reverse(m.Status)
	want(t, "by index", next(t, p, 0, m, ordinary).names(), "sim-h200-0 sim-h200-1 sim-h200-2")
	m.lease(2, 1024, 1, "") // Status is reversed: this is device 0
	want(t, "with a lease outside Kubernetes", next(t, p, 1, m, ordinary).names(), "sim-h200-1 sim-h200-2 sim-h200-0")
	m.Leases = nil
	m.lease(2, 1024, 1, "u")
	want(t, "after it ended", next(t, p, 2, m, ordinary).names(), "sim-h200-1 sim-h200-2 sim-h200-0")
	want(t, "a minute later", next(t, p, 62, m, ordinary).names(), "sim-h200-0 sim-h200-1 sim-h200-2")
}

func TestMemoryOfOthers(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*machine)
		want   string
	}{
		{"leases of claims do not count", func(m *machine) { m.lease(0, 61440, 1, "a"); m.lease(0, 61440, 1, "b") }, "143259Mi 4"},
		{"what their processes use beyond counts", func(m *machine) { m.lease(0, 1024, 1, "a").Parts[0].Measured = gpu.Some(gpu.MiB(2048)) }, "142235Mi 4"},
		{"a lease without a scope", func(m *machine) { m.lease(0, 51200, 1, "") }, "92059Mi 3"},
		{"one that uses more than it holds", func(m *machine) { m.lease(0, 1024, 1, "").Parts[0].Measured = gpu.Some(gpu.MiB(51200)) }, "92059Mi 3"},
		{"one that is scoped to a unit", func(m *machine) { m.lease(0, 51200, 1, "").Scope = []string{"podman-1.scope", "nginx.service"} }, "92059Mi 3"},
		{"leases from a pool, which has their memory", func(m *machine) {
			m.lease(0, 51200, 0, "").Pool = &api.Pool{Taken: 40960, Leases: 1}
			m.lease(0, 40960, 1, "").FromPool = "lease-0"
		}, "92059Mi 3"},
		{"one from a pool that has ended", func(m *machine) { m.lease(0, 40960, 1, "").FromPool = "ended" }, "102299Mi 3"},
		{"one from a pool that uses more than it holds", func(m *machine) {
			m.lease(0, 51200, 0, "").Pool = &api.Pool{Taken: 1024, Leases: 1}
			l := m.lease(0, 1024, 1, "")
			l.FromPool, l.Parts[0].Measured = "lease-0", gpu.Some(gpu.MiB(2048))
		}, "91035Mi 3"},
		{"one that is parked", func(m *machine) { m.lease(0, 51200, 1, "").State = "parked" }, "143259Mi 4"},
		{"one that waits", func(m *machine) { m.lease(0, 51200, 1, "").State = "waiting" }, "143259Mi 4"},
		{"one on another device", func(m *machine) { m.lease(1, 51200, 1, "") }, "143259Mi 4"},
		{"foreign processes, in whole grains", func(m *machine) { m.Available[0].Foreign = 517 }, "142683Mi 4"},
		{"a limit", func(m *machine) { m.Available[0].Limit = 100000 }, "99488Mi 4"},
		{"everything is taken", func(m *machine) { m.lease(0, 143000, 4, ""); m.Available[0].Foreign = 5000 }, "0 0"},
		{"next to nothing is left", func(m *machine) { m.lease(0, 142656, 3, "") }, "603Mi 1"},
		{"less than a context is left", func(m *machine) { m.lease(0, 142720, 3, "") }, "539Mi 1"},
		{"probation halves the slots", func(m *machine) { m.Status[0].Trust = &api.Trust{Phase: "probation", Why: "XID 79"} }, "143259Mi 2"},
		{"slots that memory cost do not count", func(m *machine) { m.Status[0].Trust = &api.Trust{Withheld: 3}; m.Status[0].Slots.Usable = 1 }, "143259Mi 4"},
		{"nor does the state", func(m *machine) {
			m.Status[0].State, m.Status[0].StateCause, m.Status[0].Slots.Usable = gpu.Critical, "memory", 0
			m.Available[0].State = gpu.Critical
		}, "143259Mi 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := h200s(2)
			c.change(m)
			l := next(t, New("node-1"), 0, m, ordinary)
			n := slices.IndexFunc(l.devices, func(d resourcev1.Device) bool { return d.Name == "sim-h200-0" })
			want(t, "capacity", l.holds(n), c.want)
			memory, slots := l.devices[n].Capacity["memory"], l.devices[n].Capacity["slots"]
			_, enough := consumed(memory, nil)
			_, free := consumed(slots, nil)
			none := resource.MustParse("0")
			if got, fits := consumed(slots, &none); fits && got.Sign() == 0 && slots.Value.Sign() > 0 {
				t.Error("a claim for no slot shares the device")
			}
			least := resource.MustParse("600Mi")
			if fits := enough && free; fits != (memory.Value.Cmp(least) > 0 && slots.Value.Sign() > 0) {
				t.Errorf("a claim that names no amount fits: %v", fits)
			}
		})
	}
}

func TestDownAtOnceUpAfterAMinute(t *testing.T) {
	p, m := New("node-1"), h200s(1)
	lease := func(memory gpu.MiB) {
		m.Leases = nil
		if memory > 0 {
			m.lease(0, memory, 0, "")
		}
	}
	for _, step := range []struct {
		at      float64
		outside gpu.MiB
		want    string
		changed bool
	}{
		{0, 51200, "92059Mi", true},
		{1, 52224, "91035Mi", true},  // less, at once
		{2, 51200, "91035Mi", false}, // 1024 MiB more is less than one percent
		{100, 51200, "91035Mi", false},
		{101, 49152, "91035Mi", false}, // 3 GiB more: the minute begins
		{130, 40960, "91035Mi", false},
		{160.9, 48128, "91035Mi", false},
		{161, 45056, "94107Mi", true}, // as much as there was all the time
		{162, 49152, "94107Mi", false},
		{163, 51200, "92059Mi", true},
		{200, 0, "92059Mi", false},
		{230, 51136, "92059Mi", false}, // the minute is interrupted
		{261, 0, "92059Mi", false},
		{321, 0, "143259Mi", true},
	} {
		lease(step.outside)
		l := next(t, p, step.at, m, ordinary)
		got, _, _ := strings.Cut(l.holds(0), " ")
		if got != step.want || l.changed != step.changed {
			t.Errorf("after %v s with %d MiB of others: %s, changed %v; want %s", step.at, step.outside, got, l.changed, step.want)
		}
	}
}

// What the processes of others use moves all the time. It is published when it crosses
// a grain, once for each device, and then never again.
func TestJitterIsNotPublished(t *testing.T) {
	p, m := New("node-1"), h200s(4)
	for i := range 400 {
		for j := range m.Available {
			m.Available[j].Foreign = gpu.MiB(2000 + (i*37+j*11)%60)
		}
		if next(t, p, float64(5*i), m, ordinary).changed && i > 60 {
			t.Errorf("published after %d s", 5*i)
		}
	}
}

func TestTaints(t *testing.T) {
	since := start.Add(-time.Second)
	for _, c := range []struct {
		name   string
		change func(*api.Status)
		marks  string
		health gpu.Health
		says   string
	}{
		{"well", func(s *api.Status) {}, "", gpu.Healthy, ""},
		{"quarantine", func(s *api.Status) {
			s.State, s.StateCause, s.Health, s.Trust = gpu.Unavailable, "fault", gpu.Unhealthy, &api.Trust{Phase: "quarantine", Why: "XID 79, the GPU fell off the bus"}
		}, "quarantine=xid79:NoExecute", gpu.Unhealthy, "because"},
		{"uncorrected memory errors", func(s *api.Status) {
			s.State, s.StateCause, s.Health, s.Trust = gpu.Unavailable, "fault", gpu.Unhealthy, &api.Trust{Phase: "quarantine", Why: "2 ECC errors that could not be corrected"}
		}, "quarantine=ecc:NoExecute", gpu.Unhealthy, "because"},
		{"the GPU of an instance is in quarantine", func(s *api.Status) {
			s.State, s.StateCause, s.Health = gpu.Unavailable, "fault", gpu.Unhealthy
		}, "quarantine=fault:NoExecute", gpu.Unhealthy, "because"},
		{"lost", func(s *api.Status) {
			s.State, s.StateCause, s.Since, s.Health, s.Trust = gpu.Unavailable, "lost", since, gpu.Unhealthy, &api.Trust{Phase: "quarantine", Why: "it fell off the bus"}
		}, "lost:NoSchedule", gpu.Unhealthy, "because"},
		{"lost for long", func(s *api.Status) {
			s.State, s.StateCause, s.Since, s.Health = gpu.Unavailable, "lost", start.Add(-30*time.Second), gpu.Unhealthy
		}, "lost:NoExecute", gpu.Unhealthy, "because"},
		{"silent", func(s *api.Status) { s.State, s.StateCause, s.Health = gpu.Unavailable, "silent", gpu.HealthUnknown }, "silent:NoSchedule", gpu.HealthUnknown, "because"},
		{"unknown", func(s *api.Status) { s.Health = gpu.HealthUnknown }, "silent:NoSchedule", gpu.HealthUnknown, "because"},
		{"warm", func(s *api.Status) { s.State, s.StateCause = gpu.Normal, "temperature" }, "", gpu.Healthy, ""},
		{"hot", func(s *api.Status) { s.State, s.StateCause = gpu.Throttled, "temperature" }, "hot:NoSchedule", gpu.Healthy, ""},
		{"too hot", func(s *api.Status) { s.State, s.StateCause = gpu.Critical, "temperature" }, "too-hot:NoSchedule", gpu.Unhealthy, "because"},
		{"probation", func(s *api.Status) {
			s.StateCause, s.Health, s.Trust = "fault", gpu.HealthUnknown, &api.Trust{Phase: "probation", Why: "XID 79"}
		}, "probation:None", gpu.HealthUnknown, "The device is on probation: XID 79"},
		{"probation and heat", func(s *api.Status) {
			s.State, s.StateCause, s.Health, s.Trust = gpu.Critical, "temperature", gpu.HealthUnknown, &api.Trust{Phase: "probation", Why: "XID 79"}
		}, "too-hot:NoSchedule probation:None", gpu.Unhealthy, "because"},
		{"drained", func(s *api.Status) { s.Drain = &api.Drain{By: "ada"} }, "drain:NoSchedule", gpu.Healthy, ""},
		{"half full", func(s *api.Status) { s.State, s.StateCause = gpu.Throttled, "memory" }, "", gpu.Healthy, ""},
		{"full", func(s *api.Status) { s.State, s.StateCause, s.Trust = gpu.Critical, "memory", &api.Trust{Withheld: 2} }, "", gpu.Healthy, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, m := New("node-1"), h200s(2)
			m.Status[0].Reason = "because"
			c.change(&m.Status[0])
			l := next(t, p, 0, m, ordinary)
			want(t, "taints", l.marks(0), c.marks)
			want(t, "taints of its neighbour", l.marks(1), "")
			h := p.Health()
			if len(h) != 2 || h[0] != (Health{"sim-h200-0", c.health, c.says}) || h[1] != (Health{"sim-h200-1", gpu.Healthy, ""}) {
				t.Errorf("health %+v", h)
			}
			if next(t, p, 10, m, ordinary).changed {
				t.Error("it is published again")
			}
		})
	}
}

func TestQuarantineEffect(t *testing.T) {
	m := h200s(1)
	m.Status[0].Trust = &api.Trust{Phase: "quarantine", Why: "XID 79"}
	for _, effect := range []resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone} {
		l := next(t, New("node-1"), 0, m, Shape{Consumable: true, Taints: true, Quarantine: effect})
		want(t, "taints", l.marks(0), "quarantine=xid79:"+string(effect))
	}
}

func TestLostDeviceStaysWithItsLastFacts(t *testing.T) {
	p, m := New("node-1"), h200s(2)
	m.lease(1, 51200, 1, "")
	next(t, p, 0, m, ordinary)
	s := &m.Status[1]
	s.Device = gpu.Device{UUID: s.Device.UUID} // the daemon no longer knows more
	s.State, s.StateCause, s.Health, s.Slots = gpu.Unavailable, "lost", gpu.Unhealthy, api.Slots{}
	m.Available[1] = api.DeviceAvailable{GPU: s.Device.UUID, State: gpu.Unavailable}
	m.Leases = nil
	for _, step := range []struct {
		at      float64
		marks   string
		changed bool
	}{{10, "lost:NoSchedule", true}, {39, "lost:NoSchedule", false}, {40, "lost:NoExecute", true}, {4000, "lost:NoExecute", false}} {
		l := next(t, p, step.at, m, ordinary)
		want(t, "names", l.names(), "sim-h200-0 sim-h200-1")
		want(t, "taints", l.marks(1), step.marks)
		want(t, "capacity", l.holds(1), "92059Mi 3")
		if name := l.devices[1].Attributes["productName"].StringValue; name == nil || *name != "NVIDIA H200" {
			t.Errorf("its name is %v", name)
		}
		if l.changed != step.changed {
			t.Errorf("after %v s changed is %v", step.at, l.changed)
		}
	}
	back := h200s(2)
	l := next(t, p, 4010, back, ordinary)
	want(t, "taints when it is back", l.marks(1), "")
}

// A daemon that starts may not have found all devices yet. That is no reason to move
// pods away, nor to forget a device that one has.
func TestDeviceThatTheDaemonDoesNotList(t *testing.T) {
	p, m := New("node-1"), h200s(3)
	m.lease(1, 51200, 1, "a")
	next(t, p, 0, m, ordinary)
	m.Status, m.Available = m.Status[:1], m.Available[:1]
	for _, at := range []float64{1, 600.9} {
		l := next(t, p, at, m, ordinary)
		want(t, "names", l.names(), "sim-h200-0 sim-h200-1 sim-h200-2")
		want(t, "taints", l.marks(1), "silent:NoSchedule")
	}
	want(t, "later", next(t, p, 601, m, ordinary).names(), "sim-h200-0 sim-h200-1")
	if _, found := p.Find("sim-h200-2"); found {
		t.Error("a device that is forgotten is found")
	}
	m.Leases = nil
	want(t, "without a claim", next(t, p, 602, m, ordinary).names(), "sim-h200-0")
}

func TestDaemonAway(t *testing.T) {
	p := New("node-1")
	away := &machine{Facts{Silent: time.Hour}}
	if l := next(t, p, 0, away, ordinary); l.changed || len(l.devices) > 0 {
		t.Fatalf("published %+v for a daemon that was never heard of", l)
	}
	if l := next(t, p, 0, &machine{}, ordinary); l.changed {
		t.Fatal("an empty list would take away what an earlier driver has published")
	}
	m := h200s(1)
	next(t, p, 1, m, ordinary)
	away.Silent = 9 * time.Second
	if l := next(t, p, 10, away, ordinary); l.changed {
		t.Error("a restart of the daemon is published")
	}
	if h := p.Health(); len(h) != 1 || h[0].State != gpu.HealthUnknown || h[0].Message == "" {
		t.Errorf("health %+v", h)
	}
	away.Silent = 10 * time.Second
	l := next(t, p, 11, away, ordinary)
	want(t, "taints", l.marks(0), "daemon:NoSchedule")
	want(t, "capacity", l.holds(0), "143259Mi 4")
	l = next(t, p, 20, m, ordinary)
	want(t, "taints when it is back", l.marks(0), "")
	if !l.changed || p.Health()[0] != (Health{"sim-h200-0", gpu.Healthy, ""}) {
		t.Errorf("health %+v", p.Health())
	}
}

func TestInstances(t *testing.T) {
	p, m := New("node-1"), h200s(3)
	m.Status[0].Device.Instances = []string{"SIM-h200-1", "SIM-h200-2"}
	m.Status[1].Device.Parent, m.Status[2].Device.Parent = "SIM-h200-0", "SIM-h200-0"
	want(t, "names", next(t, p, 0, m, ordinary).names(), "sim-h200-1 sim-h200-2")
	m.lease(0, 1024, 1, "a") // somebody cut a GPU that a claim has
	l := next(t, p, 1, m, ordinary)
	want(t, "names", l.names(), "sim-h200-0 sim-h200-1 sim-h200-2")
	want(t, "taints", l.marks(0), "drain=mig:NoSchedule")
}

func TestMemoryThatNobodyKnows(t *testing.T) {
	m := h200s(1)
	m.Available[0].Total, m.Available[0].Limit = 0, 0
	l := next(t, New("node-1"), 0, m, ordinary)
	if _, has := l.devices[0].Capacity["memory"]; has || len(l.devices[0].Capacity) != 1 {
		t.Errorf("capacity %v", l.devices[0].Capacity)
	}
	m.Available = nil
	if l := next(t, New("node-1"), 0, m, ordinary); len(l.devices) > 0 {
		t.Error("a device is published without knowing how much of it there is")
	}
}

func TestMessageStaysWhileTheTroubleIsTheSame(t *testing.T) {
	p, m := New("node-1"), h200s(1)
	m.Status[0].State, m.Status[0].StateCause = gpu.Critical, "temperature"
	for i, reason := range []string{"91 °C", "92 °C"} {
		m.Status[0].Reason = reason
		next(t, p, float64(i), m, ordinary)
		want(t, "message", p.Health()[0].Message, "91 °C")
	}
	m.Status[0].Reason = strings.Repeat("ü", 4000)
	m.Status[0].StateCause, m.Status[0].Health = "silent", gpu.HealthUnknown
	next(t, p, 3, m, ordinary)
	if got := p.Health()[0].Message; len(got) > 1024 || len(got) < 1000 {
		t.Errorf("a message of %d bytes", len(got))
	}
}

func TestSplit(t *testing.T) {
	m := h200s(150)
	l := next(t, New("node-1"), 0, m, ordinary)
	var sizes []int
	var joined []resourcev1.Device
	for _, s := range Split(l.devices) {
		sizes, joined = append(sizes, len(s)), append(joined, s...)
	}
	want(t, "sizes", fmt.Sprint(sizes), "[64 64 22]")
	want(t, "order", look{devices: joined}.names(), l.names())
	if n := len(Split(nil)); n != 1 {
		t.Errorf("no devices make %d slices; a pool has one at least", n)
	}
}

// The devices of an earlier driver keep what it said of them, and get one taint.
func TestAway(t *testing.T) {
	p, m := New("node-1"), h200s(2)
	m.Status[1].Drain = &api.Drain{By: "ada"}
	left := next(t, p, 0, m, ordinary)
	away := look{devices: Away(Away(left.devices))}
	want(t, "the first device", away.marks(0), "daemon:NoSchedule")
	want(t, "the second device", away.marks(1), left.marks(1)+" daemon:NoSchedule")
	want(t, "capacity", away.holds(0), left.holds(0))
	if len(left.devices[0].Taints) != 0 {
		t.Error("the devices that were given are changed")
	}
}
