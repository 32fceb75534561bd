package desk

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

// garage parks leases in the book, where there is nothing to move.
type garage struct {
	book  *ledger.Ledger
	moves map[uint64]move.Status

	unshared bool // what was said last
}

func (g *garage) Park(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string, unshared bool) error {
	g.unshared = unshared
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := g.book.Park(ctx, k, fence, by, why)
	if err == nil {
		g.moves[fence] = move.Status{Phase: move.Parked, Why: why, Host: 100, Times: 1}
	}
	return err
}

func (g *garage) Resume(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string, wait gpu.Opt[time.Duration]) error {
	_, err := g.book.Return(ctx, k, fence, by, why, time.Time{}, wait)
	if err == nil {
		g.moves[fence] = move.Status{Times: 1}
	}
	return err
}

func (g *garage) Wake(ctx context.Context, k lease.Key, fence uint64) error {
	if g.moves[fence].Phase == "" {
		return nil
	}
	return g.Resume(ctx, k, fence, access.Daemon(), "", gpu.Opt[time.Duration]{})
}

func (g *garage) Kept(*lease.Lease) string { return "" }

func (g *garage) Of(fence uint64) (move.Status, bool) {
	s, ever := g.moves[fence]
	return s, ever
}

// ink is an audit log in memory.
type ink struct {
	dry     error // why nothing is written; nil: it is
	entries []api.AuditEntry
}

func (i *ink) Record(e api.AuditEntry) error {
	if i.dry == nil {
		i.entries = append(i.entries, e)
	}
	return i.dry
}

// seat counts how often a place is given away and taken back.
type seat struct{ aside, back int }

func (p *seat) Aside()               { p.aside++ }
func (p *seat) Back(context.Context) { p.back++ }

func withGarage(t *testing.T) (*office, *garage, *ink) {
	t.Helper()
	o := open(t, "1xrtx-4060")
	g, log := &garage{book: o.parts.Ledger, moves: map[uint64]move.Status{}}, &ink{}
	o.parts.Parking, o.parts.Record = g, log.Record
	o.remake()
	return o, g, log
}

func wants(t *testing.T, what string, err error, code string) {
	t.Helper()
	if r := (*Refusal)(nil); !errors.As(err, &r) || r.Code != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// A lease is parked, others get what it held, and it returns when there is room.
func TestParkAndResume(t *testing.T) {
	o, g, log := withGarage(t)
	by, name := self(t), lease.Name{ID: "a"}
	at := &seat{}
	by.Place = at
	granted, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "a", Memory: 5000, Binding: "named", Parkable: true, Timeout: gpu.Some(0.0)})
	if err != nil || !granted.Parkable {
		t.Fatalf("%+v %v", granted, err)
	}
	at.aside, at.back = 0, 0
	left, leave := context.WithCancel(t.Context())
	leave()
	l, err := o.Leases.Park(left, by, name, api.Park{Fence: granted.Fence, Why: "night\x07", Unshared: true}) // it goes on although the caller has left
	if err != nil || l.State != "parked" || l.Parking == nil || l.Parking.Why != "night\uFFFD" {
		t.Fatalf("%+v %+v %v", l, l.Parking, err)
	}
	if !g.unshared {
		t.Error("the word of the owner was not passed on")
	}
	if at.aside != 1 || at.back != 1 {
		t.Errorf("the place was given away %d times and taken back %d times", at.aside, at.back)
	}
	_, err = o.Leases.Park(t.Context(), by, name, api.Park{})
	wants(t, "park it again", err, "wrong_state")
	_, err = o.Leases.Release(t.Context(), by, name, 0, false)
	wants(t, "release what is parked", err, "parked")
	_, err = o.Leases.Resize(t.Context(), by, name, api.Resize{Memory: 10})
	wants(t, "resize what is parked", err, "wrong_state")
	if _, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "b", Memory: 5000, Binding: "named", Timeout: gpu.Some(0.0)}); err != nil {
		t.Fatalf("what it held is not free: %v", err)
	}
	_, err = o.Leases.Resume(t.Context(), by, name, api.Resume{Timeout: gpu.Some(0.0)})
	wants(t, "resume without room", err, "insufficient_memory")
	_, err = o.Leases.Resume(t.Context(), by, name, api.Resume{Timeout: gpu.Some(0.001)})
	wants(t, "resume with too little patience", err, "allocation_timeout")
	if err == nil || !strings.HasPrefix(err.Error(), "Cannot resume a: there was no room within 0.1 s: GPU 0 needs 4.883 GiB and has ") || !strings.HasSuffix(err.Error(), ". It stays parked; give it more time, or resume it later.") {
		t.Errorf("resume with too little patience: %v", err)
	}
	if _, err := o.Leases.Release(t.Context(), by, lease.Name{ID: "b"}, 0, false); err != nil {
		t.Fatal(err)
	}
	if l, err = o.Leases.Wake(t.Context(), by, name, api.Park{}); err != nil || l.State != "active" || l.Parts[0].Memory != 5000 {
		t.Errorf("woken: %+v %v", l, err)
	}
	_, err = o.Leases.Resume(t.Context(), by, name, api.Resume{})
	wants(t, "resume what is not parked", err, "wrong_state")
	if len(log.entries) > 0 {
		t.Errorf("what an owner does was audited: %+v", log.entries)
	}
}

// A daemon that was killed after the book had a lease parked, and before its memory was said
// to be away, shows the lease as parked: others have its room.
func TestWhatTheBookHasParkedIsParked(t *testing.T) {
	d := &Leases{parking: &garage{moves: map[uint64]move.Status{7: {Phase: move.Parking, Times: 1}}}}
	for book, want := range map[lease.State]string{lease.Active: "parking", lease.Parked: "parked"} {
		l := api.Lease{Fence: 7, State: string(book)}
		if d.Whereabouts(&l, true); l.State != want {
			t.Errorf("a lease that is %s in the book is %s, want %s", book, l.State, want)
		}
	}
}

// quickEnd parks nothing: the lease ends while its memory moves.
type quickEnd struct {
	*garage
	end func()
}

func (q quickEnd) Park(context.Context, lease.Key, uint64, access.Actor, string, bool) error {
	q.end()
	return errors.New("the lease has ended")
}

// That a lease ends meanwhile is no fault of the daemon.
func TestALeaseThatEndsWhileItIsParked(t *testing.T) {
	o, g, _ := withGarage(t)
	by, name := self(t), lease.Name{ID: "a"}
	if _, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "a", Memory: 5000, Binding: "named", Timeout: gpu.Some(0.0)}); err != nil {
		t.Fatal(err)
	}
	o.parts.Parking = quickEnd{g, func() {
		if _, err := o.Leases.Release(t.Context(), by, name, 0, true); err != nil {
			t.Error(err)
		}
	}}
	o.remake()
	_, err := o.Leases.Park(t.Context(), by, name, api.Park{})
	wants(t, "park what ends", err, "lease_ended")
}

// What the driver could not move, or nobody could bring back, is refused before it
// is tried.
func TestWhatIsNotParked(t *testing.T) {
	o := open(t, "2xrtx-4060")
	g := &garage{book: o.parts.Ledger, moves: map[uint64]move.Status{}}
	o.parts.Parking = g
	o.remake()
	by := self(t)
	admin := by
	admin.Role = access.Admin
	ask := func(by Caller, r api.LeaseRequest) {
		t.Helper()
		r.Timeout = gpu.Some(0.0)
		if _, err := o.Leases.Acquire(t.Context(), by, r); err != nil {
			t.Fatal(err)
		}
	}
	ask(by, api.LeaseRequest{ID: "wide", GPUs: 2, Memory: 100, Slots: gpu.Some(0), Binding: "named"})
	ask(admin, api.LeaseRequest{ID: "pod", Memory: 100, Slots: gpu.Some(0), Binding: "named", Scope: []string{"pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"}})
	ask(by, api.LeaseRequest{ID: "shared", Memory: 1000, Slots: gpu.Some(0), Binding: "process", PID: by.Holder.PID, Enforce: "mps"})
	ask(by, api.LeaseRequest{ID: "parent", Memory: 100, Slots: gpu.Some(0), Binding: "named"})
	ask(by, api.LeaseRequest{ID: "child", Parent: "parent", Memory: 10, Slots: gpu.Some(0), Binding: "named"})
	for _, id := range []string{"wide", "pod", "shared", "parent", "child"} {
		_, err := o.Leases.Park(t.Context(), by, lease.Name{ID: id}, api.Park{})
		wants(t, "park "+id, err, "cannot_park")
	}
	if len(g.moves) > 0 {
		t.Errorf("parked %v", g.moves)
	}
}

// What an operator does to the lease of somebody else is written down first, or
// not done.
func TestParkingForOthersIsAudited(t *testing.T) {
	o, g, log := withGarage(t)
	if _, err := o.Leases.Acquire(t.Context(), self(t), api.LeaseRequest{ID: "a", Memory: 100, Binding: "named", Timeout: gpu.Some(0.0)}); err != nil {
		t.Fatal(err)
	}
	olga := Caller{Actor: access.Actor{UID: 4711, User: "olga", Door: access.Socket, Role: access.Operator}}
	log.dry = audit.ErrUnavailable
	_, err := o.Leases.Park(t.Context(), olga, lease.Name{ID: "a"}, api.Park{})
	wants(t, "park without a log", err, "audit_unavailable")
	if len(g.moves) > 0 {
		t.Fatal("it was parked all the same")
	}
	log.dry = nil
	_, err = o.Leases.Park(t.Context(), olga, lease.Name{ID: "a"}, api.Park{Unshared: true})
	wants(t, "an operator gives the word of the owner", err, "not_owner")
	if len(g.moves) > 0 {
		t.Fatal("it was parked all the same")
	}
	log.entries = nil
	if _, err := o.Leases.Park(t.Context(), olga, lease.Name{ID: "a"}, api.Park{Why: "night"}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Leases.Park(t.Context(), olga, lease.Name{ID: "a"}, api.Park{}); err == nil {
		t.Error("it was parked twice")
	}
	var said []string
	for _, e := range log.entries {
		said = append(said, e.What+" "+e.Object.ID+" "+e.Outcome)
	}
	if len(said) != 3 || said[0] != "park a done" || said[2] != "park a failed" || log.entries[0].Why != "night" || log.entries[0].Who.User != "olga" {
		t.Errorf("written down: %q", said)
	}
}

// sweeper is an optimizer that is busy if it is told so.
type sweeper struct{ busy bool }

func (s sweeper) Optimize(_ context.Context, _ access.Actor, b api.Optimize, may func(*lease.Lease) bool) (api.Optimization, error) {
	if s.busy {
		return api.Optimization{}, &lease.BusyError{Why: "an optimization runs"}
	}
	return api.Optimization{Service: b.Service, DryRun: b.DryRun}, nil
}

func TestOptimize(t *testing.T) {
	o, _, log := withGarage(t)
	by := self(t)
	_, err := o.Leases.Optimize(t.Context(), by, api.Optimize{})
	wants(t, "without an optimizer", err, "no_optimizing")
	o.parts.Optimizer = sweeper{}
	o.remake()
	o.parts.Config = func() *config.Config { return &config.Config{Services: map[string]config.Service{"embedder": {}}} }
	o.remake()
	_, err = o.Leases.Optimize(t.Context(), by, api.Optimize{Service: "nobody"})
	wants(t, "a service nobody knows", err, "unknown_service")
	if _, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "a", Service: "held", Memory: 100, Binding: "named", Timeout: gpu.Some(0.0)}); err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{"", "embedder", "held"} {
		if got, err := o.Leases.Optimize(t.Context(), by, api.Optimize{Service: service}); err != nil || got.Service != service {
			t.Errorf("%q: %+v %v", service, got, err)
		}
	}
	o.parts.Optimizer = sweeper{busy: true}
	o.remake()
	_, err = o.Leases.Optimize(t.Context(), by, api.Optimize{})
	wants(t, "while one runs", err, "optimizing")
	bound := by
	bound.Actor.Service, bound.Actor.Token = "embedder", "ci"
	_, err = o.Leases.Optimize(t.Context(), bound, api.Optimize{Service: "held"})
	wants(t, "a token of another service", err, "other_service")
	if len(log.entries) > 0 {
		t.Errorf("what a user does to their own was audited: %+v", log.entries)
	}
	o.parts.Optimizer, by.Role = sweeper{}, access.Operator
	o.remake()
	if _, err := o.Leases.Optimize(t.Context(), by, api.Optimize{Service: "held"}); err != nil || len(log.entries) != 1 || log.entries[0].What != "optimize" || log.entries[0].Object.ID != "held" {
		t.Errorf("an operator: %v %+v", err, log.entries)
	}
	if _, err := o.Leases.Optimize(t.Context(), by, api.Optimize{DryRun: true}); err != nil || len(log.entries) != 1 {
		t.Errorf("a dry run: %v %+v", err, log.entries)
	}
}
