package ledger

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// cast is simulated processes by pid, with what there is to know about them.
type cast map[int]kinship.Facts

func (c cast) Started(pid int) (uint64, bool)      { _, runs := c[pid]; return 1, runs }
func (c cast) End(pid int)                         { delete(c, pid) }
func (c cast) Facts(pid int) (kinship.Facts, bool) { f, says := c[pid]; return f, says }

// The simulated processes of these tests.
const (
	first = 5000001 + iota
	second
	third
)

// runs describes a process of the n-th user that is called by a name.
func runs(n int, name string) kinship.Facts {
	return kinship.Facts{UID: access.KnownUID(n), Programs: []string{name}}
}

// in puts a process into a control group.
func in(path string, f kinship.Facts) kinship.Facts {
	f.Cgroups = []string{path}
	return f
}

func unit(name string) func(*lease.Request) { return func(r *lease.Request) { r.Unit = name } }

func scope(names ...string) func(*lease.Request) { return func(r *lease.Request) { r.Scope = names } }

// why lists the processes on the first device as "lease: evidence", and those of
// no lease with what fits.
func (k *keeper) why() string {
	var all []string
	for _, p := range k.Processes(dev(0)) {
		text := "none"
		if p.Lease != nil {
			text = p.Lease.ID
		}
		if p.By != "" {
			text += ": " + string(p.By)
		}
		if p.Fits != nil {
			text += " fits " + strings.Join(p.Fits, " and ")
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func (k *keeper) explain(want string) {
	k.t.Helper()
	if got := k.why(); got != want {
		k.t.Errorf("the processes belong to %q, want %q", got, want)
	}
}

// An allocation for a service and the service itself are counted once, whichever
// comes first.
func TestAllocationIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.cast = cast{first: runs(1, "embedder"), second: runs(2, "embedder")}
		k := w.start(t)
		k.device(0, 100, used(first, 30))
		k.expect(70, 0, 0, 30)
		k.grant(want("a", 40, service("embedder")))
		k.expect(60, 40, 0, 0) // at once, not with the next sample
		k.explain("a: program")
		k.device(0, 100, used(first, 30), used(second, 5))
		k.expect(55, 40, 0, 5)
		k.explain("a: program, none")
		if !k.Leased(dev(0), process.ID{PID: first, Start: 1}) || k.Leased(dev(0), process.ID{PID: second, Start: 1}) {
			t.Error("its process is under a lease, and the other user's is not")
		}
		k.device(0, 100, used(first, 50))
		k.expect(50, 40, 10, 0)
		k.give("a", 1)
		k.expect(50, 0, 0, 50)
		k.explain("none")
	})
}

// What fits two leases belongs to neither, until one of them ends.
func TestEvidenceThatFitsTwoLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.cast = cast{first: runs(1, "embedder")}
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("embedder", 20))
		k.device(0, 100, used(first, 15))
		k.expect(80, 20, 0, 0)
		k.grant(want("b", 20, service("embedder")))
		k.expect(45, 40, 0, 15)
		k.explain("none: program fits embedder and b")
		k.give("b", 1)
		k.expect(80, 20, 0, 0)
		// Two of one service are alike.
		c := k.grant(want("c", 10, service("trainer"))).Fence
		d := k.grant(want("d", 10, service("trainer"))).Fence
		w.cast[second] = runs(1, "trainer")
		k.device(0, 100, used(second, 15))
		k.expect(60, 40, 0, 0)
		k.explain("c: program")
		if all := k.Belonging(); len(all) != 2 || len(all[c]) != 1 || len(all[d]) != 1 || all[d][0].GPU != dev(0) {
			t.Errorf("belonging: %v", all)
		}
		for _, held := range k.View().Leases {
			if one, all := k.BelongingTo(held.Lease), k.Belonging()[held.Fence]; len(one) != len(all) {
				t.Errorf("belonging to %s: %v, and of all %v", held.ID, one, all)
			}
		}
	})
}

func TestUnitOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		const path = "/system.slice/embedder.service"
		w.cast = cast{first: in(path, runs(1, "python3")), second: in(path, runs(2, "python3")), third: in("/user.slice/session-1.scope", runs(1, "python3"))}
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 40, unit("embedder.service")))
		k.device(0, 100, used(first, 30), used(second, 5), used(third, 5))
		k.expect(50, 40, 0, 10)
		k.explain("a: unit, none, none")
		// A process that is moved away is noticed a while later.
		w.cast[first] = in("/elsewhere", runs(1, "python3"))
		time.Sleep(time.Minute) // simulated
		k.device(0, 100, used(first, 30))
		k.expect(30, 40, 0, 30)
	})
}

func TestServiceTellsItsProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.cast = cast{first: runs(7, "python3")}
		w.cast[first] = kinship.Facts{UID: access.KnownUID(7), User: "", Programs: []string{"python3", "serve"}}
		k := w.start(t)
		k.device(0, 100, used(first, 30))
		k.grant(want("a", 40, service("embedder")))
		k.expect(30, 40, 0, 30)
		w.settings.Services = map[string]quota.Served{"embedder": {Match: &kinship.Match{Program: "serve", User: "7"}}}
		k.Configure(w.settings)
		k.expect(60, 40, 0, 0) // at once
		k.explain("a: service")
	})
}

// berth signals only on certain evidence. Weaker evidence counts memory, and
// spares from gpu.foreign, nothing more.
func TestWeakEvidenceGivesNobodyUp(t *testing.T) {
	w := newWorld()
	w.settings.Services = map[string]quota.Served{"matched": {Match: &kinship.Match{Program: "cat", User: fmt.Sprint(os.Geteuid())}}}
	for name, test := range map[string]struct {
		change func(*lease.Request)
		by     kinship.Evidence
	}{
		"program": {service("cat"), kinship.Program},
		"service": {service("matched"), kinship.Service},
	} {
		t.Run(name, func(t *testing.T) {
			k := newWorld().start(t)
			k.Configure(w.settings)
			cmd := child(t)
			id := identify(t, cmd.Process.Pid)
			k.device(0, 100)
			granted := k.grant(want("a", 40, ours, test.change))
			k.device(0, 100, used(id.PID, 30))
			k.expect(60, 40, 0, 0)
			k.explain("a: " + string(test.by))
			if got := k.Members(k.only("a"), granted.Fence); len(got) != 0 {
				t.Errorf("%v may be signalled", got)
			}
			if !k.Leased(dev(0), id) {
				t.Error("it is not spared")
			}
			// It claims another lease: that is certain, and goes before.
			other := k.grant(want("b", 10, ours))
			sure := claimant(t, "b", other.Fence)
			k.device(0, 100, used(id.PID, 30), used(sure.Process.Pid, 5))
			k.explain("a: " + string(test.by) + ", b: environment")
			if got := k.Members(k.only("b"), other.Fence); len(got) != 1 || got[0].PID != sure.Process.Pid {
				t.Errorf("the members of b are %v, want %d", got, sure.Process.Pid)
			}
			member := identify(t, sure.Process.Pid)
			if k.Moved(k.only("b"), other.Fence, member) || !k.Moved(k.only("a"), granted.Fence, member) || k.Moved(k.only("b"), other.Fence, id) {
				t.Error("a member moves by certain evidence only")
			}
			// A process that worked under the lease by its environment is an
			// orphan when the lease ends; one that only fitted is not.
			after(t)
			k.give("a", os.Geteuid())
			k.give("b", os.Geteuid())
			for _, p := range k.Processes(dev(0)) {
				if (p.Ended == "b") != (p.Line[0].PID == sure.Process.Pid) || p.Lease != nil {
					t.Errorf("process %d belongs to %v, and was left by %q", p.Line[0].PID, p.Lease, p.Ended)
				}
			}
		})
	}
}

// A lease of which the environment names the id is charged, and not the oldest
// of its holder.
func TestClaimNamesTheLease(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	holder := child(t)
	k.grant(want("a", 30, k.held(holder.Process.Pid), ours))
	b := k.grant(want("b", 30, k.held(holder.Process.Pid), ours))
	guest := claimant(t, "b", b.Fence)
	k.device(0, 100, used(guest.Process.Pid, 20))
	for id, want := range map[string]gpu.MiB{"a": 0, "b": 20} {
		if held, _ := k.Find(k.only(id)); held.Measured[0] != gpu.Some(want) && !(want == 0 && !held.Measured[0].Known()) {
			t.Errorf("%s uses %v, want %v", id, held.Measured[0], want)
		}
	}
	if members := k.Members(k.only("a"), 1); slices.ContainsFunc(members, func(id process.ID) bool { return id.PID == guest.Process.Pid }) {
		t.Errorf("a process of b may be signalled for a: %v", members)
	}
}

// A lease with a scope takes the processes in it, whoever they are, and no
// others; a restart does not change that.
func TestScopeOfALease(t *testing.T) {
	w := newWorld()
	inside, holder := child(t), child(t)
	const pod12, pod34 = "pod0d9f7e4c-4f3e-4b0f-9d77-000000000012", "pod0d9f7e4c-4f3e-4b0f-9d77-000000000034"
	w.cast = cast{first: in("/kubepods/"+pod12, runs(3, "x")), inside.Process.Pid: in("/kubepods/"+pod12, kinship.Facts{}), second: in("/kubepods/"+pod34, runs(3, "a"))}
	k := w.start(t)
	k.device(0, 100)
	granted := k.grant(want("a", 40, k.held(holder.Process.Pid), ours, scope(pod12)))
	sampled := []func(*placement.Observation){used(first, 10), used(inside.Process.Pid, 20), used(second, 5), used(holder.Process.Pid, 5)}
	k.device(0, 100, sampled...)
	k.expect(50, 40, 0, 10)
	k.explain("a: scope, a: scope, none, none")
	if got := k.Members(k.only("a"), granted.Fence); len(got) != 1 || got[0].PID != inside.Process.Pid {
		t.Errorf("the members are %v, want %d: the holder is none", got, inside.Process.Pid)
	}
	if _, err := k.Rescope(t.Context(), byID("a"), 0, []string{pod34}, nil, by(1)); err == nil {
		t.Error("a user changed the scope")
	}
	if _, err := k.Rescope(t.Context(), byID("a"), granted.Fence, []string{pod34}, []string{pod12}, admin(0)); err != nil {
		t.Fatal(err)
	}
	k.explain("none, none, a: scope, none") // at once
	k.expect(25, 40, 0, 35)
	k.stop()
	k = w.start(t)
	k.device(0, 100, sampled...)
	k.explain("none, none, a: scope, none")
	if _, err := k.Rescope(t.Context(), byID("a"), 0, nil, []string{pod34}, admin(0)); err != nil {
		t.Fatal(err)
	}
	k.explain("none, none, none, a: descent") // without a scope it is a lease like any other
}

func TestHolderInUnit(t *testing.T) {
	w := newWorld()
	cmd := child(t)
	own := os.Geteuid()
	w.cast = cast{cmd.Process.Pid: in("/system.slice/embedder.service", kinship.Facts{})}
	k := w.start(t)
	about := lease.Holder{UID: 1, User: "user1"}
	if got, note, err := k.HolderInUnit("nothing.service", by(1), about); err != nil || got != about || !strings.Contains(note, "no process runs in unit nothing.service now") {
		t.Errorf("nobody is in the unit: %+v, %q, %v", got, note, err)
	}
	if _, _, err := k.HolderInUnit("embedder", by(own+1), about); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", cmd.Process.Pid)) {
		t.Errorf("another user named the unit: %v", err)
	}
	if got, note, err := k.HolderInUnit("embedder", admin(own+1), about); err != nil || note != "" || got.UID != own || got.User != fmt.Sprint(own) {
		t.Errorf("an administrator leases for %+v, %q, %v", got, note, err)
	}
	for _, shared := range []string{"user.slice", "session-3.scope", "user@7.service", "init.scope", ""} {
		if _, _, err := k.HolderInUnit(shared, admin(0), about); err == nil || !strings.Contains(err.Error(), "many programs share") {
			t.Errorf("%q: %v", shared, err)
		}
	}
}
