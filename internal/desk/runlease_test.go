package desk

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/when/later"
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

// What a run is told of a full or broken disk, and of too many requests, passes. That there
// is no room for it, or no lease, does not.
func TestWhatPassesForARun(t *testing.T) {
	full := &journal.WriteError{Op: "write to", File: "log", Full: true, Err: errors.New("no space left on device")}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{full, true},
		{fmt.Errorf("grant: %w", &journal.WriteError{Op: "write to", File: "log", Err: errors.New("input/output error")}), true},
		{Refused(full), true},
		{audit.ErrUnavailable, true},
		{quota.ErrCrowded, true},
		{&placement.NoFitError{}, false},
		{lease.ErrUnknown, false},
		{errors.New("a bug"), false},
		{nil, false},
	} {
		if got := later.Passes(passing(c.err)); got != c.want || !errors.Is(passing(c.err), c.err) {
			t.Errorf("%v passes: %v", c.err, got)
		}
	}
}
