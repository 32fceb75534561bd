package desk

import (
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/lease"
)

// The lease of a job is known by the job. One that its user has under the same id stands
// beside it as it was, and only the job ends the lease of the job or changes it.
func TestTheLeaseOfAJobIsTheJobs(t *testing.T) {
	w := openWorkshop(t)
	by := local(t, adaUID, "ada", access.User)
	j := w.submit(t, by, api.JobRequest{Command: []string{"true"}, Name: "train", Directory: "/", Hold: true, Lease: api.LeaseRequest{Memory: 3000}})
	mine, err := w.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: j.ID, Memory: 100, Slots: gpu.Some(0), Binding: "named", Timeout: gpu.Some(0.0)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Jobs.Change(t.Context(), by, j.ID, UnholdJob, ""); err != nil {
		t.Fatal(err)
	}
	<-w.runs.started
	id, err := job.ParseID(j.ID)
	if err != nil {
		t.Fatal(err)
	}
	key := lease.Key{Owner: lease.Owner{UID: adaUID}, ID: j.ID, Run: lease.Run{Kind: lease.OfJob, Number: id.Number}}
	of, stands := w.parts.Ledger.Find(key)
	if !stands || of.Fence == mine.Fence || of.Total().Memory != 3000 {
		t.Fatalf("the lease of the job is %+v", of)
	}
	name, olga := lease.Name{ID: j.ID}, local(t, olgaUID, "olga", access.Operator)
	theirs := lease.Name{User: "ada", ID: j.ID}
	if _, err := w.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "part", Parent: j.ID, Slots: gpu.Some(0), Binding: "named", Timeout: gpu.Some(0.0)}); err != nil { // of the user's own, which has the id
		t.Fatal(err)
	}
	within := api.LeaseRequest{ID: "within", Parent: j.ID, ParentFence: of.Fence, Slots: gpu.Some(0), Binding: "named", Timeout: gpu.Some(0.0)}
	child, err := w.Leases.Acquire(t.Context(), by, within)
	if err != nil {
		t.Fatal(err)
	}
	if held := w.parts.Ledger.Lease(lease.Key{Owner: key.Owner, ID: child.ID}, child.Fence); held == nil || held.ParentFence != of.Fence {
		t.Errorf("%+v is no child of the job's lease, which has fence %d", held, of.Fence)
	}
	within.ID, within.ParentFence = "later", of.Fence+1000
	if _, err := w.Leases.Acquire(t.Context(), by, within); codeOf(err) != "no_parent" {
		t.Errorf("a child of a lease that is not there: %v", err)
	}
	within.Parent = ""
	if _, err := w.Leases.Acquire(t.Context(), by, within); codeOf(err) != "invalid_request" {
		t.Errorf("a fence without an id: %v", err)
	}
	for what, do := range map[string]func() error{
		"released":                func() error { _, err := w.Leases.Release(t.Context(), by, name, of.Fence, true); return err },
		"released by its fence":   func() error { _, err := w.Leases.Release(t.Context(), by, name, of.Fence, false); return err },
		"released by an operator": func() error { _, err := w.Leases.Release(t.Context(), olga, theirs, of.Fence, true); return err },
		"cancelled": func() error {
			_, err := w.Leases.Cancel(t.Context(), by, name, api.Cancel{Fence: of.Fence})
			return err
		},
		"resized": func() error {
			_, err := w.Leases.Resize(t.Context(), by, name, api.Resize{Fence: of.Fence, Memory: 10})
			return err
		},
		"renewed": func() error { _, err := w.Leases.Renew(t.Context(), by, name, api.Renew{Fence: of.Fence}); return err },
	} {
		if err := do(); codeOf(err) != "job_lease" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := w.Leases.Release(t.Context(), by, name, 0, false); err != nil { // the user's own
		t.Fatal(err)
	}
	for _, fence := range []uint64{0, of.Fence} {
		if _, err := w.Leases.Release(t.Context(), by, name, fence, true); codeOf(err) != "job_lease" {
			t.Errorf("released with fence %d: %v", fence, err)
		}
	}
	if _, err := w.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "kid", Parent: j.ID, Slots: gpu.Some(0), Binding: "named", Timeout: gpu.Some(0.0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Leases.Cancel(t.Context(), by, lease.Name{ID: "kid"}, api.Cancel{}); codeOf(err) != "job_lease" {
		t.Errorf("a part of it is cancelled: %v", err)
	}
	if _, err := w.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: j.ID, Memory: 3000, Binding: "named", Timeout: gpu.Some(0.0)}); codeOf(err) != "duplicate_allocation" {
		t.Errorf("its id is given to another one: %v", err)
	}
	if now, stands := w.parts.Ledger.Find(key); !stands || now.Lease != of.Lease {
		t.Errorf("the lease of the job is %+v", now)
	}
}
