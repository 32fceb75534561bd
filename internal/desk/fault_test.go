package desk

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/job/owner"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
)

// TestABugInTheLeaseOfAJobHoldsThatJob: neither the keeper of jobs nor the owner of services
// recovers from what the desk does for them, so the desk does.
func TestABugInTheLeaseOfAJobHoldsThatJob(t *testing.T) {
	told := make(chan gpu.Event, 8)
	o := open(t, "2xrtx-4060")
	o.Faults = &fault.Faults{Log: slog.New(slog.DiscardHandler), Publish: func(e gpu.Event) { told <- e }}
	working := o.Config
	o.Config = func() *config.Config { panic("a mistake") }

	ada := lease.Holder{UID: 1000, User: "ada"}
	claim := keeper.Claim{Spec: &job.Spec{UID: ada.UID, User: ada.User, Lease: api.LeaseRequest{Memory: 100}}, ID: "train-1"}
	_, err := jobLeases{o.Desk}.Acquire(t.Context(), claim)
	if broken := (*fault.Error)(nil); !errors.As(err, &broken) {
		t.Errorf("the job hears %v", err)
	}
	if e := <-told; e.Code != gpu.EventInternalFault || e.User != "ada" {
		t.Errorf("the event is %+v", e)
	}
	_, err = serviceLeases{o.Desk}.Acquire(t.Context(), owner.Ask{Spec: &service.Spec{UID: ada.UID, User: ada.User, Name: "chat"}, ID: "chat-1"})
	if broken := (*fault.Error)(nil); !errors.As(err, &broken) {
		t.Errorf("the service hears %v", err)
	}

	o.Config = working
	other := local(t, 1001, "eve", access.User)
	if _, err := o.Acquire(t.Context(), other, api.LeaseRequest{ID: "mine", Memory: 100, Binding: "named"}); err != nil {
		t.Errorf("another user is refused: %v", err)
	}
	if _, err := (jobLeases{o.Desk}).Acquire(t.Context(), claim); err != nil {
		t.Errorf("the job is refused when the bug is gone: %v", err)
	}
}
