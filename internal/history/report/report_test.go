package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func device(index int, state gpu.State) api.Status {
	return api.Status{
		Device: gpu.Device{UUID: fmt.Sprintf("GPU-%d", index), Index: index, Name: "H200", MemoryTotal: 143771},
		State:  state, Reason: "the reason", Health: gpu.Healthy,
	}
}

func held(id, service, user string, on string, memory, measured gpu.MiB, age time.Duration) api.Lease {
	part := api.LeasePart{GPU: on, Memory: memory, Slots: 1}
	if measured > 0 {
		part.Measured = gpu.Some(measured)
	}
	return api.Lease{ID: id, State: "active", Holder: api.Holder{Service: service, User: user}, Granted: noon.Add(-age), Parts: []api.LeasePart{part}, EnforcedBy: "watchdog"}
}

// load returns samples of the last minutes with this utilisation.
func load(minutes int, percent gpu.Percent, used gpu.MiB) []gpu.Sample {
	var list []gpu.Sample
	for i := range minutes + 1 {
		list = append(list, gpu.Sample{
			Time: noon.Add(time.Duration(i-minutes) * time.Minute), Utilization: gpu.Some(percent), MemoryUsed: gpu.Some(used),
			Temperature: gpu.Some(gpu.Celsius(40 + i)), Power: gpu.Some(gpu.Watts(100)),
		})
	}
	return list
}

func answers() Answers {
	parked := held("sleeper", "sleeper", "carol", "GPU-1", 8192, 0, time.Hour)
	parked.State = "parked"
	driver := held("mps", "embedder", "anna", "GPU-1", 4096, 0, time.Hour)
	driver.EnforcedBy = "mps"
	return Answers{
		Status: api.StatusAll{GPUs: []api.Status{device(0, gpu.Optimal), device(1, gpu.Optimal), device(2, gpu.Unavailable)}},
		Available: api.Available{GPUs: []api.DeviceAvailable{
			{GPU: "GPU-0", Available: 1000, Foreign: 2048}, {GPU: "GPU-1", Available: 2000, Foreign: 500},
		}},
		Leases: api.Leases{
			Leases: []api.Lease{
				held("fits", "embedder", "anna", "GPU-0", 4096, 4000, time.Hour), held("over", "embedder", "bob", "GPU-0", 4096, 5000, time.Hour),
				held("unused", "", "bob", "GPU-1", 20480, 0, 3*time.Hour), held("new", "", "bob", "GPU-1", 20480, 0, time.Minute),
				held("large", "trainer", "bob", "GPU-1", 40960, 1024, time.Hour), parked, driver,
			},
			Waiting: []api.Waiting{
				{ID: "late one", Holder: api.Holder{Service: "trainer", User: "dora"}, Memory: 50000, Since: noon.Add(-5 * time.Minute)},
				{ID: "fresh", Holder: api.Holder{Service: "trainer", User: "dora"}, Slots: 1, Since: noon.Add(-time.Second)},
			},
		},
		Past: api.PastLeases{Leases: []api.PastLease{
			{Holder: api.Holder{Service: "embedder", User: "anna"}, Peak: 3000}, {Holder: api.Holder{Service: "gone", User: "erin"}, Peak: 70},
		}},
		Measurements: api.Measurements{Measurements: []api.Measured{
			{Name: "greedy.py", Asked: 40960, Peak: 8192, Next: 9024}, {Name: "modest.py", Asked: 4096, Peak: 8192, Next: 9024}, {Name: "right.py", Asked: 9216, Peak: 8192, Next: 9024},
		}},
		History: map[string][]gpu.Sample{"GPU-0": load(10, 50, 9000), "GPU-1": load(10, 0, 1100)},
	}
}

func TestAdvice(t *testing.T) {
	var got []string
	for _, advice := range Make(answers(), noon).Advice {
		got = append(got, strings.TrimSuffix(fmt.Sprintf("%s: %s $ %s", advice.Code, advice.Text, advice.Command), " $ "))
	}
	want := []string{
		"unwell: GPU 2 is UNAVAILABLE: the reason. $ berth status 2",
		"foreign: 2 GiB of GPU 0 is used under no lease. $ berth leases --orphans",
		"over: over uses 4.9 GiB on GPU 0 and leased 4 GiB: it should lease more. $ berth leases --processes",
		"waiting: late one has waited for 48.8 GiB for 5 min. $ berth explain 'late one'",
		"unused: unused has leased 20 GiB on GPU 1 for 3 h, and nothing under it uses the GPU. $ berth release unused",
		"oversized: large leases 40 GiB on GPU 1 and uses 1 GiB of it: it could lease less.",
		"idle: GPU 1 did nothing in the last 10 min, and 84 GiB of it is leased. $ berth status 1",
		"program: greedy.py asked for 40 GiB and used at most 8 GiB: 8.8 GiB is enough.",
		"program: modest.py asked for 4 GiB and used 8 GiB: it should ask for 8.8 GiB.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the advice (-want +got):\n%s", diff)
	}
}

// A lease that keeps something from others is told once, and a program that runs is not
// left without its lease.
func TestAdviceOnHogs(t *testing.T) {
	a, since := answers(), noon.Add(-time.Minute)
	for i := range a.Leases.Leases {
		a.Leases.Leases[i].Binding = "process"
	}
	a.Status.Needs = []api.Need{{Kind: "hog", Lease: "large", Since: &since, Text: "large is in the way"}}
	var got []string
	for _, advice := range Make(a, noon).Advice {
		if strings.Contains(advice.Text, "large") || advice.Code == "unused" {
			got = append(got, advice.Code+": "+advice.Command)
		}
	}
	if want := []string{"hog: ", "unused: berth cancel unused"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A pool counts as what its leases have not taken, and is not unused while they use it.
func TestPoolsInAReport(t *testing.T) {
	pool, child := held("pool", "", "bob", "GPU-2", 40960, 0, time.Hour), held("child", "", "bob", "GPU-2", 30720, 30000, time.Hour)
	pool.Pool, child.FromPool = &api.Pool{Taken: 30720, Left: 10240, Leases: 1}, "pool"
	a := answers()
	a.Leases.Leases = append(a.Leases.Leases, pool, child)
	r := Make(a, noon)
	if d := r.GPUs[2]; d.Leased != 40960 || d.Leases != 2 {
		t.Errorf("%d leases have %s", d.Leases, d.Leased)
	}
	for _, advice := range r.Advice {
		if strings.Contains(advice.Text, "pool") {
			t.Error(advice.Text)
		}
	}
}

func TestReport(t *testing.T) {
	r := Make(answers(), noon)
	first := r.GPUs[0]
	if first.Utilization.Or(0) != 50 || first.Hottest.Or(0) != 50 || first.Power.Or(0) != 100 || first.Covers != 600 || first.Peak != 9000 ||
		first.Leased != 8192 || first.Measured != 9000 || first.Leases != 2 || first.Available != 1000 {
		t.Errorf("GPU 0: %+v", first)
	}
	if last := r.GPUs[2]; last.Utilization.Known() || last.Covers != 0 {
		t.Errorf("GPU 2, which was never measured: %+v", last)
	}
	var got []string
	for _, s := range r.Services {
		got = append(got, fmt.Sprintf("%q of %v: %d leases, %s, %s used, %d slots, %d wait, %d ended with at most %s",
			s.Service, s.Users, s.Leases, s.Leased, s.Measured, s.Slots, s.Waiting, s.Past, s.PastPeak))
	}
	want := []string{
		`"" of [bob]: 2 leases, 40 GiB, 0 MiB used, 2 slots, 0 wait, 0 ended with at most 0 MiB`,
		`"trainer" of [bob dora]: 1 leases, 40 GiB, 1 GiB used, 1 slots, 2 wait, 0 ended with at most 0 MiB`,
		`"embedder" of [anna bob]: 3 leases, 12 GiB, 8.8 GiB used, 3 slots, 0 wait, 1 ended with at most 2.9 GiB`,
		`"gone" of [erin]: 0 leases, 0 MiB, 0 MiB used, 0 slots, 0 wait, 1 ended with at most 70 MiB`,
		`"sleeper" of [carol]: 1 leases, 0 MiB, 0 MiB used, 0 slots, 0 wait, 0 ended with at most 0 MiB`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the services (-want +got):\n%s", diff)
	}
	if empty := Make(Answers{}, noon); len(empty.Advice) != 0 || empty.GPUs == nil || empty.Services == nil {
		t.Errorf("a machine without anything: %+v", empty)
	}
}
