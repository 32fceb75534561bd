package desk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/lease"
)

// scrubber notes what it is to overwrite.
type scrubber struct {
	Checkup
	done []string
	fail string
}

func (s *scrubber) Scrub(_ context.Context, on gpu.Device, held gpu.MiB) (proof.Result, error) {
	s.done = append(s.done, fmt.Sprintf("%d beside %d MiB", on.Index, held))
	if s.fail != "" {
		return proof.Result{Verdict: proof.Unasked, Reason: s.fail}, nil
	}
	return proof.Result{Verdict: proof.Passed}, nil
}

// Memory is overwritten before a user gets what another one may have had, and
// not between two leases of one user. Receipts say what was done.
func TestScrub(t *testing.T) {
	o := open(t, "1")
	s := &scrubber{}
	known := "not checked"
	o.parts.Checkup, o.parts.ClearedBy = s, func([]gpu.Device) string { return known }
	o.remake()
	o.parts.Config = gpuConfig(config.GPU{Scrub: "on"})
	o.remake()
	caller := func(uid int, user string) Caller {
		return Caller{Actor: access.Actor{User: user, UID: uid, Door: access.Socket, Role: access.User}, Holder: lease.Holder{User: user, UID: uid}}
	}
	take := func(uid int, user, id string) api.Lease {
		t.Helper()
		l, err := o.Leases.Acquire(t.Context(), caller(uid, user), api.LeaseRequest{ID: id, Binding: "named", Memory: 64, Slots: gpu.Some(0), Enforce: "watchdog", Timeout: gpu.Some(0.0)})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	end := func(l api.Lease) {
		t.Helper()
		if _, err := o.parts.Ledger.Release(t.Context(), lease.Name{ID: l.ID}, l.Fence, caller(l.Holder.UID.Or(0), l.Holder.User).Actor); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, l api.Lease, by, note string, scrubs ...string) {
		t.Helper()
		if l.Launch.ClearedBy != by || !strings.Contains(l.Note, note) || note == "" && strings.Contains(l.Note, "memory of earlier") || !slices.Equal(s.done, scrubs) {
			t.Errorf("%s: cleared by %q, note %q, scrubbed %q", when, l.Launch.ClearedBy, l.Note, s.done)
		}
		s.done = nil
	}
	first := take(1000, "ada", "a")
	want("after a restart nobody knows who was there", first, "berth", "", "0 beside 64 MiB")
	a := caller(1000, "ada").Actor
	held, _ := o.parts.Ledger.Find(lease.Key{Owner: lease.OwnerOf(&a), ID: "a"})
	var again api.Lease
	if err := o.Leases.AddLaunch(t.Context(), a, &again, held, nil); err != nil || again.Launch.ClearedBy != "berth" {
		t.Errorf("asked again, the lease says that its memory was cleared by %+v, %v", again.Launch, err)
	}
	second := take(1000, "ada", "b")
	want("one's own memory", second, "berth", "")
	other := take(1001, "bob", "c")
	want("beside others", other, "berth, partly", "overwritten in part", "0 beside 64 MiB")
	end(first)
	end(second)
	end(other)
	third := take(1001, "bob", "d")
	want("after ada", third, "berth", "", "0 beside 64 MiB")
	s.fail = "no driver"
	fourth := take(1000, "ada", "e")
	want("if it cannot be done", fourth, "nobody: the memory could not be overwritten", "GPU 0: no driver", "0 beside 64 MiB")
	s.fail = ""
	end(third)
	fifth := take(1002, "eve", "f")
	want("what could not be done is tried again", fifth, "berth, partly", "in part", "0 beside 64 MiB")
	known = "driver, checked 2026-11-15"
	want("if the driver does it", take(1003, "joe", "g"), known, "")
	known = "not checked"
	o.parts.Config = gpuConfig(config.GPU{})
	o.remake()
	want("if berth does not", take(1004, "jim", "h"), known, "")
	o.Leases.equip.traces.scrubbed("GPU-0", []string{"ada"}) // one that began before scrub was switched off
}
