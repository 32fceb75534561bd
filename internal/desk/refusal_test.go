package desk

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/when/later"
)

// What waited in vain says what was in its way.
func TestNoRoomInTime(t *testing.T) {
	full := func(index int) placement.Reason {
		return placement.Reason{GPU: fmt.Sprint("GPU-", index), Index: index, Code: placement.NoSlot, Text: "needs 1 slot, and all 2 are taken"}
	}
	other := placement.Reason{GPU: "GPU-0", Code: placement.OtherDevice, Text: "the request is for GPU-1"}
	for _, c := range []struct {
		reasons []placement.Reason
		want    string
	}{
		{[]placement.Reason{other, full(1)}, "There was no room within 1 s: GPU 1 needs 1 slot, and all 2 are taken."},
		{[]placement.Reason{full(0), full(1), full(2)}, "There was no room within 1 s: GPU 0 needs 1 slot, and all 2 are taken; no room on 2 other GPUs either."},
		{[]placement.Reason{other}, "There was no room within 1 s: wait."},
	} {
		late := &placement.TimeoutError{Waited: 1006 * time.Millisecond, Refusal: &placement.NoFitError{Reasons: c.reasons, Hint: "wait"}}
		if p := Refused(late); p.Code != "allocation_timeout" || p.Detail != c.want {
			t.Errorf("%s: %s, want %s", p.Code, p.Detail, c.want)
		}
	}
	if p := Refused(&placement.TimeoutError{Waited: time.Second}); p.Detail != "There was no room within 1 s." {
		t.Error(p.Detail)
	}
}

// What passes is refused in a way after which a client asks again, with the code of what
// was in the way.
func TestWhatPassesIsUnavailable(t *testing.T) {
	for _, c := range []struct {
		cause error
		kind  Kind
		code  string
	}{
		{errors.New("the user database does not answer"), Unavailable, "no_answer"},
		{Refuse(Conflict, "mps_failed", "Try again."), Unavailable, "mps_failed"},
		{fmt.Errorf("grant it: %w", lease.ErrParked), Unavailable, "parked"},
		{&journal.WriteError{Full: true, Err: errors.New("no space")}, DiskFull, "journal_full"},
		{fmt.Errorf("write the states of services: %w", syscall.ENOSPC), DiskFull, "disk_full"},
		{fmt.Errorf("write the states of services: %w", syscall.EIO), Unavailable, "no_answer"},
	} {
		r := Refused(fmt.Errorf("start it: %w", later.Because(c.cause, 0)))
		if r.Kind != c.kind || r.Code != c.code {
			t.Errorf("%v is refused as %s (%v)", c.cause, r.Code, r.Kind)
		}
		if last := (*Refusal)(nil); errors.As(c.cause, &last) && last.Kind != Conflict {
			t.Errorf("the refusal %s itself has changed", last.Code)
		}
	}
}

// A client asks again after "stopping", and gives up after "internal".
func TestAStoppingDaemonSaysSo(t *testing.T) {
	for _, err := range []error{ledger.ErrStopped, runs.ErrStopped} {
		if r := Refused(fmt.Errorf("bring red: %w", err)); r.Code != "stopping" || r.Kind != Unavailable {
			t.Errorf("%v is refused as %s (%v)", err, r.Code, r.Kind)
		}
	}
}
