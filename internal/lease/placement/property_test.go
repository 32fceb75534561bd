package placement

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"pgregory.net/rapid"
)

// world is a machine in plain form, from which the properties work out by
// themselves what is right.
type world struct {
	devices []gpu.Device
	uses    []Use
	runs    [][]int // service → leases by device
	s       *Snapshot
	gate    Gate // of the request that was drawn last; nil: it has none
}

var services = []string{"", "render", "train"}

func drawWorld(t *rapid.T, most int) *world {
	w := &world{}
	n := rapid.IntRange(0, most).Draw(t, "devices")
	for i := range n {
		d := testDevice(i)
		if rapid.IntRange(0, 3).Draw(t, "other model") == 0 {
			d.Name, d.ComputeCapability, d.MemoryTotal = "Radeon", "", 16<<10
			d.Vendor = gpu.AMD
		}
		for j := range i {
			if kind := rapid.IntRange(0, 3).Draw(t, "link"); kind > 0 {
				kinds := []gpu.LinkKind{"", gpu.LinkNVLink, gpu.LinkSwitch, gpu.LinkSystem}
				d.Links = append(d.Links, gpu.Link{To: uuid(j), Kind: kinds[kind], Lanes: rapid.IntRange(0, 2).Draw(t, "lanes")})
			}
		}
		w.devices = append(w.devices, d)
		w.uses = append(w.uses, drawUse(t))
	}
	w.s = NewSnapshot(w.devices)
	for i, u := range w.uses {
		w.s.Update(uuid(i), u)
	}
	w.runs = make([][]int, len(services))
	for k := range services {
		w.runs[k] = make([]int, n)
		for i := range n {
			leases := max(rapid.IntRange(-2, 2).Draw(t, "leases"), 0)
			if k > 0 {
				w.runs[k][i] = leases
				w.s.AddLeases(services[k], uuid(i), leases)
			}
		}
	}
	return w
}

func drawUse(t *rapid.T) Use {
	u := Use{
		Available:    gpu.MiB(rapid.IntRange(-1, 6).Draw(t, "available")),
		Ceiling:      gpu.MiB(rapid.IntRange(2, 6).Draw(t, "ceiling")),
		MaxPipelines: rapid.IntRange(1, 3).Draw(t, "max"),
		State:        rapid.SampledFrom(gpu.States()[:4]).Draw(t, "state"),
	}
	u.Available = min(u.Available, u.Ceiling)
	if rapid.Bool().Draw(t, "measured") {
		u.Recent.Load.Step = rapid.IntRange(0, 2).Draw(t, "load")
		u.Recent.Heat.Step = rapid.IntRange(0, 2).Draw(t, "heat")
	}
	if rapid.Bool().Draw(t, "foreseen") {
		u.Warmth = gpu.Some(Warmth{Settles: gpu.Celsius(rapid.IntRange(60, 80).Draw(t, "settles")), PerWatt: 0.125 * float64(rapid.IntRange(0, 2).Draw(t, "per watt")), Limit: 75})
	}
	u.Usable = rapid.IntRange(0, u.MaxPipelines).Draw(t, "usable")
	u.Active = rapid.IntRange(0, u.MaxPipelines).Draw(t, "active")
	u.Leases = rapid.IntRange(0, 2).Draw(t, "leases")
	u.Alone = u.Leases > 0 && rapid.IntRange(0, 2).Draw(t, "alone") == 0
	if rapid.IntRange(0, 9).Draw(t, "closed") == 0 {
		u.Closed = "in quarantine"
	}
	return u
}

func drawRequest(t *rapid.T, w *world, mostGPUs int) lease.Request {
	r := lease.Request{
		GPUs:   rapid.IntRange(1, mostGPUs).Draw(t, "gpus"),
		Memory: gpu.MiB(rapid.IntRange(0, 4).Draw(t, "memory")),
		Slots:  rapid.IntRange(0, 2).Draw(t, "slots"),
		Policy: rapid.SampledFrom(PolicyNames()).Draw(t, "policy"),
		Holder: lease.Holder{Service: rapid.SampledFrom(services).Draw(t, "service")},

		Together: rapid.Bool().Draw(t, "together"),
	}
	if rapid.IntRange(0, 3).Draw(t, "exclusive") == 0 {
		r.Exclusive, r.Least, r.Memory = true, r.Memory, 6
	}
	if rapid.Bool().Draw(t, "drew before") {
		r.Draw = gpu.Some(gpu.Watts(8 * rapid.IntRange(0, 10).Draw(t, "draw")))
	}
	if rapid.Bool().Draw(t, "prefers") {
		r.Preferred = uuid(rapid.IntRange(0, len(w.devices)).Draw(t, "preferred"))
	}
	switch rapid.IntRange(0, 5).Draw(t, "where") {
	case 0:
		r.Where.Vendor = gpu.NVIDIA
	case 1:
		r.Where = gpu.Where{Name: "h2?0", Like: true}
	case 2:
		r.Where.GPU = uuid(rapid.IntRange(0, len(w.devices)).Draw(t, "pin"))
	}
	w.gate = nil
	if rapid.IntRange(0, 3).Draw(t, "refuses") == 0 {
		limit := gpu.MiB(rapid.IntRange(0, 4).Draw(t, "refused above"))
		w.gate = gateFunc(func(uuid string, memory gpu.MiB) string {
			if strings.HasSuffix(uuid, "1") && memory >= limit {
				return "somebody is ahead"
			}
			return ""
		})
	}
	if rapid.IntRange(0, 3).Draw(t, "only some") == 0 {
		for i := range w.devices {
			if rapid.Bool().Draw(t, "only") {
				r.Only = append(r.Only, uuid(i))
			}
		}
	}
	return r
}

// fits is the hard conditions in plain words.
func (w *world) fits(r *lease.Request, i int) bool {
	u, d := w.uses[i], w.devices[i]
	switch {
	case r.Where.GPU != "" && r.Where.GPU != d.UUID,
		r.Where.Vendor != "" && r.Where.Vendor != d.Vendor,
		r.Where.Name != "": // h2?0 is a pattern for the whole name, and no device is called that
		return false
	case u.Closed != "" || u.State == gpu.Critical || u.Alone:
		return false
	case r.Exclusive && (u.Leases > 0 || u.Available < r.Least), !r.Exclusive && u.Available < r.Memory:
		return false
	case r.Slots > 0 && u.Active+r.Slots > u.Usable:
		return false
	}
	if len(r.Only) > 0 && !slices.Contains(r.Only, d.UUID) {
		return false
	}
	return w.gate == nil || w.gate.Refuse(d.UUID, r.Claim()) == ""
}

// warm is whether a device gets too hot with a request on it.
func (w *world) warm(r *lease.Request, i int) bool {
	warmth, known := w.uses[i].Warmth.Get()
	return known && warmth.With(r.Draw.Or(0)) >= warmth.Limit && r.Policy != Pack && r.Policy != BestFit
}

// order is the wishes in plain words: negative if device i is to be taken
// before device j.
func (w *world) order(r *lease.Request, i, j int) int {
	a, b := w.uses[i], w.uses[j]
	leases := w.runs[slices.Index(services, r.Holder.Service)]
	first := func(yes, other bool) int {
		switch {
		case yes == other:
			return 0
		case yes:
			return -1
		}
		return 1
	}
	load := func(x, y Use) int { return cmp.Compare(x.Active*y.MaxPipelines, y.Active*x.MaxPipelines) }
	affinity := cmp.Compare(leases[i], leases[j])
	if r.Together && r.Policy != Spread {
		affinity = first(leases[i] > 0, leases[j] > 0)
	}
	more, less := cmp.Compare(b.Available, a.Available), cmp.Compare(a.Available, b.Available)
	idler := cmp.Compare(a.Recent.Load.Step, b.Recent.Load.Step)
	cooler := cmp.Compare(a.Recent.Heat.Step, b.Recent.Heat.Step)
	var policy int
	switch r.Policy {
	case LeastLoaded:
		policy = cmp.Or(load(a, b), idler, cooler, more)
	case MostFree:
		policy = cmp.Or(more, load(a, b), idler, cooler)
	case BestFit:
		policy = cmp.Or(less, load(a, b))
	case Spread:
		policy = cmp.Or(cmp.Compare(a.Active, b.Active), idler, cooler, more)
	case Pack:
		policy = cmp.Or(load(b, a), less)
	}
	return cmp.Or(first(uuid(i) == r.Preferred, uuid(j) == r.Preferred), first(w.warm(r, j), w.warm(r, i)), affinity, policy, i-j)
}

// ranked lists the devices that fit, the one to take first in front.
func (w *world) ranked(r *lease.Request) []int {
	var fit []int
	for i := range w.devices {
		if w.fits(r, i) {
			fit = append(fit, i)
		}
	}
	slices.SortFunc(fit, func(i, j int) int { return w.order(r, i, j) })
	return fit
}

func (w *world) link(i, j int) int32 {
	for _, l := range w.devices[max(i, j)].Links {
		if l.To == uuid(min(i, j)) {
			return strength(l)
		}
	}
	return 0
}

// bestSet goes through every set of devices that fit.
func (w *world) bestSet(r *lease.Request) []string {
	fit := w.ranked(r)
	var best []int
	var kept score
	for set := range subsets(len(fit), r.GPUs) {
		if len(fit) > 0 && uuid(fit[0]) == r.Preferred && set[0] != 0 {
			continue
		}
		now := score{weakest: 1 << 30}
		for a := range set {
			now.ranks += int32(set[a])
			if i := fit[set[a]]; uuid(i) != r.Preferred && w.warm(r, i) {
				now.warm++
			}
			for b := range a {
				l := w.link(fit[set[a]], fit[set[b]])
				now.weakest, now.total = min(now.weakest, l), now.total+l
			}
		}
		if best == nil || now.betterThan(kept) {
			kept, best = now, nil
			for _, rank := range set {
				best = append(best, fit[rank])
			}
		}
	}
	slices.Sort(best)
	var uuids []string
	for _, i := range best {
		uuids = append(uuids, uuid(i))
	}
	return uuids
}

// subsets yields the subsets of size k of 0…n-1 in lexicographic order.
func subsets(n, k int) func(func([]int) bool) {
	return func(yield func([]int) bool) {
		set := make([]int, 0, k)
		var extend func(from int) bool
		extend = func(from int) bool {
			if len(set) == k {
				return yield(set)
			}
			for i := from; i < n; i++ {
				set = append(set, i)
				if !extend(i + 1) {
					return false
				}
				set = set[:len(set)-1]
			}
			return true
		}
		extend(0)
	}
}

func TestTheFirstInOrderIsChosen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 8)
		r := drawRequest(t, w, 1)
		got, ok := Choose(w.s, &r, w.gate, nil)
		want := w.ranked(&r)
		switch {
		case ok != (len(want) > 0):
			t.Fatalf("Choose says %v, %d devices fit", ok, len(want))
		case ok && got[0] != uuid(want[0]):
			t.Fatalf("chose %s, the order is %v", got[0], want)
		}
	})
}

// TestRankAgreesWithChoose holds the ranking that people are shown to what Choose
// does: the same devices, in the order of the wishes, the chosen one first.
func TestRankAgreesWithChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 8)
		r := drawRequest(t, w, 1)
		want := w.ranked(&r)
		places := Rank(w.s, &r, w.gate)
		if len(places) != len(w.devices) {
			t.Fatalf("%d places for %d devices", len(places), len(w.devices))
		}
		for at, p := range places {
			if fits := at < len(want); fits != (p.Rank == at+1) || fits != (len(p.Reasons) == 0) || !fits && p.Rank != 0 {
				t.Fatalf("place %d is %+v, the order is %v", at, p, want)
			}
			if at < len(want) && p.Index != want[at] {
				t.Fatalf("place %d is GPU %d, the order is %v", at, p.Index, want)
			}
			runs := w.runs[slices.Index(services, r.Holder.Service)][p.Index]
			if p.Replicas != runs || p.Use != w.uses[p.Index] || p.Preferred != (p.GPU == r.Preferred) || p.GPU != uuid(p.Index) {
				t.Fatalf("place %d is %+v", at, p)
			}
		}
		if got, ok := Choose(w.s, &r, w.gate, nil); ok && got[0] != places[0].GPU {
			t.Fatalf("chose %s, and %s is first", got[0], places[0].GPU)
		}
	})
}

func TestTheBestLinkedSetIsChosen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 7)
		r := drawRequest(t, w, 4)
		if rapid.IntRange(0, 3).Draw(t, "hard") > 0 { // else few devices fit, and there is little to choose
			r.Memory, r.Slots, r.Where, r.Only, w.gate = 0, 0, gpu.Where{}, nil, nil
			for i := range w.uses {
				w.uses[i].Available, w.uses[i].State, w.uses[i].Closed = w.uses[i].Ceiling, gpu.Optimal, ""
				w.s.Update(uuid(i), w.uses[i])
			}
		}
		got, ok := Choose(w.s, &r, w.gate, nil)
		want := w.bestSet(&r)
		if ok != (want != nil) || !slices.Equal(got, want) {
			t.Fatalf("chose %v, want %v", got, want)
		}
	})
}

// TestExplainAgreesWithChoose holds what Explain says to what Choose does.
func TestExplainAgreesWithChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 6)
		r := drawRequest(t, w, 3)
		_, ok := Choose(w.s, &r, w.gate, nil)
		e := Explain(w.s, &r, w.gate)
		if ok != (e == nil) {
			t.Fatalf("Choose says %v, Explain %v", ok, e)
		}
		if e == nil {
			return
		}
		blamed := map[string]bool{}
		for _, why := range e.Reasons {
			blamed[why.GPU] = true
			if why.Text == "" {
				t.Fatalf("no text in %+v", why)
			}
		}
		for i := range w.devices {
			if fit := w.fits(&r, i); fit == blamed[uuid(i)] {
				t.Fatalf("device %d fits: %v, and its reasons are %+v", i, fit, e.Reasons)
			}
		}
		w.checkLargest(t, r, e.LargestNow)
		if e.Ever != w.fitsEmpty(r) {
			t.Fatalf("ever is %v", e.Ever)
		}
		could := 0
		for i := range w.devices {
			if w.s.Could(uuid(i), &r) {
				could++
			}
		}
		if e.Ever != (could >= r.GPUs) || w.s.Could("GPU-elsewhere", &r) {
			t.Fatalf("ever is %v, and %d devices could", e.Ever, could)
		}
		if ever := r; e.LargestEver > 0 {
			ever.Memory, ever.Exclusive = e.LargestEver, false
			if !w.fitsEmpty(ever) {
				t.Fatalf("%s would never fit", e.LargestEver)
			}
			if ever.Memory++; w.fitsEmpty(ever) {
				t.Fatalf("more than %s would fit", e.LargestEver)
			}
		}
	})
}

// checkLargest: the amount fits, and one more does not.
func (w *world) checkLargest(t *rapid.T, r lease.Request, largest gpu.MiB) {
	r.Memory, r.Exclusive = largest, false // how much it could have if it shared
	if _, ok := Choose(w.s, &r, w.gate, nil); largest > 0 && !ok {
		t.Fatalf("%s would not fit now", largest)
	}
	r.Memory++
	if _, ok := Choose(w.s, &r, w.gate, nil); ok {
		t.Fatalf("more than %s fits now", largest)
	}
}

// fitsEmpty is whether a request fits on the same devices, empty and well.
func (w *world) fitsEmpty(r lease.Request) bool {
	empty := *w
	empty.uses = slices.Clone(w.uses)
	for i := range empty.uses {
		u := &empty.uses[i]
		*u = Use{Available: u.Ceiling, Ceiling: u.Ceiling, Usable: u.MaxPipelines, MaxPipelines: u.MaxPipelines, State: gpu.Optimal}
	}
	empty.gate = nil
	return len(empty.ranked(&r)) >= r.GPUs
}
