package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

func (s *server) registerTrim() {
	huma.Register(s.api, huma.Operation{
		OperationID: "trim", Method: http.MethodPost, Path: "/api/leases/{id}/trim", Summary: "Ask the holder of a lease to give back what its libraries keep for later",
		Description: "The holder is told by an event with the code reclaim. Programs that use the Python package with trim_on_request free the caches of " +
			"PyTorch and CuPy then; others do as they like. The measured memory of the lease shows what came of it.",
		Tags: []string{"leases"},
	}, s.trim)
}

// trim asks; nothing is taken away.
func (s *server) trim(ctx context.Context, in *named) (*answer[api.Lease], error) {
	held, found := s.Ledger.Find(in.ID)
	if !found {
		why := lease.ErrUnknown
		if _, _, waits := s.Ledger.FindWaiting(in.ID); waits {
			why = lease.ErrWaiting
		}
		return nil, refused(fmt.Errorf("trim %s: %w", in.ID, why))
	}
	if by := callerOf(ctx); !by.MayChange(held.Holder) {
		return nil, refused(fmt.Errorf("trim %s: %w", in.ID, lease.ErrNotYours))
	}
	s.Publish(gpu.Event{
		Time: time.Now(), Code: gpu.EventReclaim, Severity: gpu.Note, Lease: held.ID, User: held.Holder.User,
		Text: held.ID + " is asked to give back memory that its libraries keep for later", Data: map[string]any{"pid": held.Holder.PID},
	})
	return ok(leaseOf(held))
}
