package ledger

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Two leases of one process, one of its child, and one with a scope.
func TestWhoIsCharged(t *testing.T) {
	const uuid = "GPU-0"
	book := lease.New()
	book.SetCapacity(uuid, lease.Capacity{Total: 1000, MaxPipelines: 8, Usable: 8})
	grant := func(id string, memory gpu.MiB, pid int, scope ...string) *lease.Lease {
		l := &lease.Lease{
			ID: id, Holder: lease.Holder{User: "ada", UID: 1000, PID: pid, Start: 1, Boot: "now"}, Binding: lease.ByName,
			Parts: []lease.Part{{GPU: uuid, Memory: memory}}, Terms: lease.Terms{Scope: scope},
		}
		if _, err := book.Apply(lease.Grant{Lease: l}, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, second, child := grant("first", 100, 7), grant("second", 100, 7), grant("child", 50, 8)
	pod := grant("pod", 50, 7, "pod1")
	leases := kin{book: book, boot: "now", settings: &quota.Settings{}}
	if leases.hasHolder(pod) || !leases.hasHolder(first) {
		t.Error("a lease with a scope has a holder, or one without has none")
	}
	here := leases.holdings(uuid)
	line := func(pids ...int) (p kinship.Process) {
		for _, pid := range pids {
			p.Ancestry = append(p.Ancestry, kinship.ID{PID: pid, Start: 1})
		}
		return p
	}
	inPod := line(9)
	inPod.Cgroups = []string{"/kubepods/pod1/c"}
	for what, c := range map[string]struct {
		process kinship.Process
		want    []string
	}{
		"the holder of two":       {line(7), []string{"first", "second"}},
		"its child":               {line(8, 7), []string{"child"}},
		"a grandchild":            {line(6, 5, 7), []string{"first", "second"}},
		"a process in the scope":  {inPod, []string{"pod"}},
		"a process under nothing": {line(3), nil},
	} {
		var got []string
		owners, _ := here.of(c.process)
		for _, h := range owners {
			got = append(got, h.Lease.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	owned := map[lease.Key]gpu.MiB{}
	owners, tie := here.of(line(7))
	charge(owners, 250, owned)
	if want := (map[lease.Key]gpu.MiB{first.Key(): 100, second.Key(): 150}); !cmp.Equal(owned, want) {
		t.Errorf("250 MiB are divided into %v", owned)
	}
	if !leases.isMember(tie, first) || leases.isMember(tie, child) || leases.isMember(tie, pod) {
		t.Error("the holder is a member of another lease, or not of its own")
	}
	if got := here.ids([]uint64{child.Fence, pod.Fence}); !cmp.Equal(got, []string{"child", "pod"}) {
		t.Errorf("the ids are %v", got)
	}
}

// A batch charges a device once, and no call in it is refused because of that: memory that a
// lease of the same batch has taken over is not foreign to those behind it.
func TestBatchWithALeaseOverMemoryInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.cast = cast{first: runs(1, "a")}
		k := w.start(t)
		k.device(0, 100, used(first, 50))
		k.seat <- struct{}{} // so that both calls are in one batch
		var answers [2]error
		for i, r := range []lease.Request{want("a", 50), want("b", 30, of(2))} {
			go func() { _, answers[i] = k.Acquire(t.Context(), r) }()
			synctest.Wait()
		}
		<-k.seat
		synctest.Wait()
		if answers != [2]error{} {
			t.Errorf("they are answered with %v", answers)
		}
		k.expect(20, 80, 0, 0)
	})
}

// What the processes of a lease use is not free when it ends, also in the batch that granted
// the lease over them: they may go on.
func TestAdoptedAndReleasedInOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.cast = cast{first: runs(1, "a")}
		k := w.start(t)
		k.device(0, 100, used(first, 60))
		holder := user(1)
		holder.PID, holder.Start, holder.Boot = first, 1, k.boot
		k.seat <- struct{}{} // so that all calls are in one batch
		for _, act := range []func() error{
			func() error { _, err := k.Adopt(t.Context(), Adoption{ID: "a", Holder: holder, By: by(1)}); return err },
			func() error { _, err := k.Release(t.Context(), byID("a"), 0, by(1)); return err },
			func() error { _, err := k.Acquire(t.Context(), want("b", 90, of(2))); return err },
		} {
			go func() { _ = act() }() // nobody has an answer in time
			synctest.Wait()
		}
		<-k.seat
		synctest.Wait()
		if sum := k.Sum(dev(0)); sum.Available() != 40 || len(k.leases()) > 0 {
			t.Errorf("%s are left, and %v stand, where a process uses 60 of 100", sum.Available(), k.leases())
		}
	})
}
