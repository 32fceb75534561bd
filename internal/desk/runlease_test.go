package desk

import (
	"context"
	"errors"
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// A job whose time to wait is over ends for want of room, and not because the disk is full
// or the daemon stops.
func TestWhatEndsAWait(t *testing.T) {
	full := &journal.WriteError{Op: "write to", File: "log", Full: true, Err: errors.New("no space left on device")}
	for _, c := range []struct {
		err           error
		before, after bool
	}{
		{&placement.TimeoutError{}, true, true},
		{&placement.NoFitError{}, false, true},
		{full, false, false},
		{ledger.ErrStopped, false, false},
		{context.Canceled, false, false},
		{errors.New("nobody knows"), false, false},
	} {
		if before, after := hasWaited(c.err, false), hasWaited(c.err, true); before != c.before || after != c.after {
			t.Errorf("%T (%v): before its time is over %v, after it %v; want %v, %v", c.err, c.err, before, after, c.before, c.after)
		}
	}
}
