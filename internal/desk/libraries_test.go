package desk

import (
	"os"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// A lease shows what its programs say about their libraries, to its owner, while they
// live. Nobody else speaks for them.
func TestLibraries(t *testing.T) {
	o := open(t, "1")
	by := self(t)
	l, err := o.Leases.Allocate(t.Context(), by, api.Allocate{ID: "a", Memory: 100, Binding: "named"})
	if err != nil {
		t.Fatal(err)
	}
	name := lease.Name{ID: "a"}
	say := func(by Caller, fence uint64, libraries ...api.LibraryMemory) (api.Lease, error) {
		return o.Leases.Libraries(t.Context(), by, name, api.Libraries{Fence: fence, Libraries: libraries})
	}
	torch := api.LibraryMemory{Name: "torch", Allocated: 1200, Cached: 300}
	if _, err := say(by, l.Fence, api.LibraryMemory{Name: "torch", Allocated: 7}); err != nil {
		t.Fatal(err)
	}
	said, err := say(by, l.Fence, torch, api.LibraryMemory{Name: "cupy", Cached: 5}) // in place of what it said before
	if err != nil || said.Libraries == nil || len(said.Libraries.Libraries) != 2 || said.Libraries.Libraries[1] != torch {
		t.Errorf("%+v, %v", said.Libraries, err)
	}
	held, _ := o.parts.Ledger.Find(lease.Key{Owner: lease.OwnerOf(&by.Actor), ID: "a"})
	var others api.Lease
	if o.Leases.Complete(&others, held, false); others.Libraries != nil {
		t.Error("others see it")
	}
	if _, err := say(by, l.Fence+1, torch); codeOf(err) != "stale_fence" {
		t.Errorf("with another fence: %v", err)
	}
	if _, err := say(by, 0, api.LibraryMemory{Name: "torch", Allocated: -1}); codeOf(err) != "invalid_request" {
		t.Errorf("less than nothing: %v", err)
	}
	for role, want := range map[access.Role]string{access.User: "unknown_allocation", access.Operator: ""} {
		other := by
		other.User, other.UID, other.Role = "eve", by.UID+1, role
		_, err := say(other, 0, torch)
		if got := codeOf(err); got != want {
			t.Errorf("another %s: %q: %v", role, got, err)
		}
	}
	own, err := process.Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if dead := o.Leases.reports.sum(l.Fence, func(id process.ID) bool { return id != own }); dead != nil {
		t.Errorf("a process that has ended holds %+v", dead)
	}
}

// However many leases and processes report, the daemon remembers the newest, of leases that
// stand before others.
func TestLibrariesAreBounded(t *testing.T) {
	var r reports
	stand := map[uint64]bool{}
	add := func(fence uint64, pid int) {
		stand[fence] = true
		r.add(fence, process.ID{PID: pid}, report{at: time.Now()}, func() map[uint64]bool { return stand })
	}
	for fence := range uint64(mostReports + 10) {
		add(fence, 1)
	}
	for pid := range mostReporters + 10 {
		add(mostReports, pid)
	}
	if len(r.all) != mostReports || r.all[9] != nil || r.all[10] == nil || len(r.all[mostReports]) > mostReporters {
		t.Errorf("%d leases, %d processes", len(r.all), len(r.all[mostReports]))
	}
	for range 2 {
		add(mostReports, mostReporters+9)
	}
	if len(r.all[mostReports]) != mostReporters {
		t.Errorf("what one process says again is in place of what another one said: %d are left", len(r.all[mostReports]))
	}
	delete(stand, 11)
	if add(2*mostReports, 1); r.all[10] == nil || r.all[11] != nil {
		t.Error("a lease that stands makes room, and one that has ended stays")
	}
}
