package fleet

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// lease returns a lease for a pod, or for none.
func lease(id, pod string, parts ...api.LeasePart) api.PodLease {
	l := api.PodLease{Lease: api.Lease{ID: id, State: "active", Parts: parts, Holder: api.Holder{User: "ann", Service: "Embedder"}}}
	if pod != "" {
		l.Namespace, l.Claim, l.Pods = "shop", pod+"-gpu", []string{pod}
	}
	return l
}

// device returns a device with 1000 MiB.
func device(index int, state gpu.State) api.Status {
	return api.Status{Device: gpu.Device{UUID: string(rune('A' + index)), Index: index, MemoryTotal: 1000}, State: state}
}

func two() []api.Node {
	parked := lease("parked", "", api.LeasePart{GPU: "A", Memory: 500})
	parked.State = "parked"
	instance := device(2, gpu.Optimal)
	instance.Device.Parent = "A"
	return []api.Node{
		{Name: "n1", Status: &api.StatusAll{GPUs: []api.Status{device(1, gpu.Optimal), device(0, gpu.Optimal), instance}}, Leases: []api.PodLease{
			lease("one", "web", api.LeasePart{GPU: "A", Memory: 100}, api.LeasePart{GPU: "B", Memory: 200}), parked, lease("gone", "", api.LeasePart{GPU: "Z", Memory: 7}),
		}},
		{Name: "n2", Down: "The daemon does not answer.", Status: &api.StatusAll{GPUs: []api.Status{device(0, gpu.Unavailable)}}, Leases: []api.PodLease{
			lease("evil", "", api.LeasePart{GPU: "A", Memory: -5}, api.LeasePart{GPU: "A", Memory: 1 << 62}), lease("none", ""),
		}},
		{Name: "n3", Down: "No answer."},
	}
}

// A pool has the memory of the leases that took theirs from it, and they keep it when it
// ends.
func TestPoolsCountOnce(t *testing.T) {
	pool, member := lease("pool", "", api.LeasePart{GPU: "A", Memory: 500}), lease("member", "", api.LeasePart{GPU: "A", Memory: 400})
	pool.Pool, member.FromPool = &api.Pool{Taken: 400, Left: 100, Leases: 1}, "pool"
	nodes := []api.Node{{Name: "n1", Status: &api.StatusAll{GPUs: []api.Status{device(0, gpu.Optimal)}}, Leases: []api.PodLease{pool, member}}}
	if sum := Add(nodes); sum.Leased != 500 || sum.Leases != 2 {
		t.Errorf("%d leases have %s", sum.Leases, sum.Leased)
	}
	nodes[0].Leases = nodes[0].Leases[1:]
	if sum := Add(nodes); sum.Leased != 400 || sum.Leases != 1 {
		t.Errorf("after the end of the pool %d leases have %s", sum.Leases, sum.Leased)
	}
}

func TestGPUs(t *testing.T) {
	var got []string
	for _, d := range GPUs(two()) {
		var ids []string
		for _, l := range d.Leases {
			ids = append(ids, l.ID)
		}
		old := ""
		if d.Old {
			old = " old"
		}
		got = append(got, d.Node+" "+d.Device.UUID+" "+d.Leased.String()+" "+strings.Join(ids, ",")+old)
	}
	want := []string{"n1 A 100 MiB one,parked", "n1 B 200 MiB one", "n1 C 0 MiB ", "n2 A 0 MiB evil old"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParts(t *testing.T) {
	type short struct {
		Node, ID, GPU string
		Index         int
		First, Old    bool
	}
	var got []short
	for _, p := range Parts(two()) {
		one := short{p.Node, p.ID, "", -1, p.First, p.Old}
		if len(p.On) > 0 {
			one.GPU, one.Index = p.On[0].GPU, p.Indexes[0]
		}
		got = append(got, one)
	}
	want := []short{
		{"n1", "one", "A", 0, true, false}, {"n1", "one", "B", 1, false, false}, {"n1", "parked", "A", 0, true, false}, {"n1", "gone", "Z", -1, true, false},
		{"n2", "evil", "A", 0, true, true}, {"n2", "evil", "A", 0, false, true}, {"n2", "none", "", -1, true, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A device that is away adds no memory, an instance counts for its whole, and amounts
// that cannot be count for nothing.
func TestAdd(t *testing.T) {
	want := Sum{Nodes: 3, Silent: 2, GPUs: 4, Leases: 5, States: map[gpu.State]int{gpu.Optimal: 3, gpu.Unavailable: 1}, Leased: 300, Total: 2000}
	if diff := cmp.Diff(want, Add(two())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFilter(t *testing.T) {
	all := api.Nodes{Nodes: two()}
	for _, c := range []struct {
		Filter
		want int
	}{
		{Filter{}, 5}, {Filter{Services: []string{"Embedder"}}, 5}, {Filter{Users: []string{"ann"}}, 5}, {Filter{Users: []string{"bob"}}, 0},
		{Filter{Services: []string{"other"}}, 0}, {Filter{Services: []string{"other", "Embedder"}, Users: []string{"bob", "ann"}}, 5},
	} {
		some := c.Apply(all)
		if got := Add(some.Nodes).Leases; got != c.want || len(some.Nodes) != 3 {
			t.Errorf("%+v: %d leases, want %d", c.Filter, got, c.want)
		}
	}
	if len(all.Nodes[0].Leases) != 3 {
		t.Error("the filter changed what it was given")
	}
}

func TestLate(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		node api.Node
		want time.Duration
	}{
		{api.Node{At: now.Add(-30 * time.Second)}, 0}, {api.Node{At: now.Add(-time.Hour)}, time.Hour}, {api.Node{At: now.Add(time.Hour)}, 0},
		{api.Node{At: now.Add(-time.Hour), Down: "It says so itself."}, 0}, {api.Node{}, 0},
	} {
		if got := Late(c.node, now); got != c.want {
			t.Errorf("%+v is late by %s, want %s", c.node, got, c.want)
		}
	}
}

func TestSort(t *testing.T) {
	names := []string{"", "a", "ip-10-0-1-9.internal", "ip-10-0-1-10.internal", "ip-10-0-2-1.internal", "node", "node-1", "node-01", "node-2", "node-2a", "node-10", "node-x"}
	rapid.Check(t, func(t *rapid.T) {
		var nodes []api.Node
		for _, name := range rapid.Permutation(names).Draw(t, "names") {
			nodes = append(nodes, api.Node{Name: name})
		}
		Sort(nodes)
		var got []string
		for _, n := range nodes {
			got = append(got, n.Name)
		}
		want := slices.Clone(names)
		want[6], want[7] = "node-01", "node-1" // the same number: by letters
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

// The order of names is an order: what comes before stays before, whatever is between.
func TestSortIsAnOrder(t *testing.T) {
	name := rapid.StringMatching(`[ab0-2.-]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		if compareNames(a, b) != -compareNames(b, a) || (compareNames(a, b) == 0) != (a == b) {
			t.Fatalf("%q and %q: %d and %d", a, b, compareNames(a, b), compareNames(b, a))
		}
		if compareNames(a, b) <= 0 && compareNames(b, c) <= 0 && compareNames(a, c) > 0 {
			t.Fatalf("%q ≤ %q ≤ %q", a, b, c)
		}
	})
}

func TestShorten(t *testing.T) {
	long := strings.Repeat("é", 5000)
	n := two()[0]
	n.Status.GPUs[0].Reason, n.Status.GPUs[0].Drain = long, &api.Drain{Reason: long}
	n.Leases[0].Pods[0], n.Leases[0].Scope, n.Leases[0].Holder.Name = long, []string{long}, long
	n.Status.GPUs[1].State = gpu.State(long)
	Shorten(&n)
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	if longest := strings.Repeat("é", 1001); strings.Contains(string(text), longest) || !strings.Contains(string(text), longest[2:]+"…") {
		t.Errorf("not cut: %d bytes", len(text))
	}
}
