package audit

import (
	"testing"

	"github.com/berth-gpu/berth/internal/access"
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
