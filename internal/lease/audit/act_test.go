package audit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
)

// TestActsOnWaitingLeases: whoever lets a lease of another user wait to be resumed
// or resized is in the log with that, and not with the grant that follows.
func TestActsOnWaitingLeases(t *testing.T) {
	held := &lease.Lease{
		ID: "train", Fence: 7, Holder: lease.Holder{User: "ann", UID: 1000}, State: lease.Parked, Binding: lease.ByName,
		Parts: []lease.Part{{GPU: "GPU-0", Memory: 4096}},
	}
	operator := access.Actor{User: "olga", UID: 7, Door: access.Socket, Role: access.Operator}
	back, more := held.Returning(), held.Growing(8192)
	back.Why = "the night is over"
	for want, r := range map[string]*lease.Request{"resume": &back, "resize": &more} {
		asked := lease.Effect{Kind: lease.Asked, Request: r, By: operator}
		if act := leaseAct(&asked); !asked.OnOthers() || act.What != want || act.Why != r.Why || act.Object.Kind != "lease" || act.Object.Owner != "ann" || act.Object.ID != "train" {
			t.Errorf("%s is written down as %+v", want, act)
		}
	}
	if granted := (lease.Effect{Kind: lease.Resumed, Before: held, After: held, Request: &back, By: operator}); granted.OnOthers() {
		t.Error("the grant is an act of its own")
	}
}

// TestScopesAreRecorded: whoever chooses a scope is in the log, also for a lease of
// their own; a lease of their own without one is not.
func TestScopesAreRecorded(t *testing.T) {
	driver := access.Actor{User: "token:driver", UID: access.NoUID, Token: "driver", Door: access.TCP, Role: access.Operator}
	held := func(scope ...string) *lease.Lease {
		return &lease.Lease{ID: "claim", Holder: lease.Holder{User: driver.User, UID: driver.UID}, State: lease.Active, Binding: lease.ByName, Terms: lease.Terms{Scope: scope}}
	}
	w := newWorld(t, file.Dir(t.TempDir()))
	if err := w.RecordLeases([]lease.Effect{
		{Kind: lease.Granted, After: held(), By: driver},
		{Kind: lease.Granted, After: held("poda"), By: driver},
		{Kind: lease.Scoped, Before: held("poda"), After: held("poda", "podb"), By: driver},
		{Kind: lease.Renewed, Before: held("poda"), After: held("poda"), By: driver},
		{Kind: lease.Granted, After: held("podc"), By: driver, Request: &lease.Request{ID: "claim", Terms: lease.Terms{Scope: []string{"podc"}}}}, // it had waited
	}, nil); err != nil {
		t.Fatal(err)
	}
	page, err := w.Page(Query{Verbs: []string{"scope"}, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range page.Entries {
		got = append(got, fmt.Sprintf("%s %s %s %s: %s to %s", e.Who.Token, e.What, e.Object.Kind, e.Object.ID, e.Before["scope"], e.After["scope"]))
	}
	want := []string{"driver scope lease claim:  to poda", "driver scope lease claim: poda to poda podb", "driver scope lease claim:  to podc"}
	if !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}
