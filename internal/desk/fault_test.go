package desk

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/lease"
)

// A bug that one job meets when it asks for its lease holds that job: the runs do not recover from
// what the desk does for them, so the desk does.
func TestABugInTheLeaseOfAJobHoldsThatJob(t *testing.T) {
	told := make(chan gpu.Event, 8)
	o := open(t, "2xrtx-4060")
	o.parts.Faults = &fault.Faults{Log: slog.New(slog.DiscardHandler), Publish: func(e gpu.Event) { told <- e }}
	o.remake()
	working := o.parts.Config
	o.parts.Config = func() *config.Config { panic("a mistake") }
	o.remake()

	ada := lease.Holder{UID: 1000, User: "ada"}
	task := keeper.AskOf(&job.Spec{UID: ada.UID, User: ada.User, Lease: api.LeaseRequest{Memory: 100}}, "train-1", time.Time{}, 0)
	_, err := runLeases{o.Leases}.Acquire(t.Context(), task)
	if broken := (*fault.Error)(nil); !errors.As(err, &broken) {
		t.Errorf("the job hears %v", err)
	}
	if e := <-told; e.Code != gpu.EventInternalFault || e.User != "ada" {
		t.Errorf("the event is %+v", e)
	}
	o.parts.Config = working
	o.remake()
	other := local(t, 1001, "eve", access.User)
	if _, err := o.Leases.Acquire(t.Context(), other, api.LeaseRequest{ID: "mine", Memory: 100, Binding: "named"}); err != nil {
		t.Errorf("another user is refused: %v", err)
	}
	if _, err := (runLeases{o.Leases}).Acquire(t.Context(), task); err != nil {
		t.Errorf("the job is refused when the bug is gone: %v", err)
	}
}
