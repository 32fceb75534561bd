package cli

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
)

// What a record says beside its kind and its lease: for one that is bound to a
// process, which that is.
func TestRecorded(t *testing.T) {
	stored := &lease.LeaseRecord{User: "ada", PID: 4711, Binding: lease.ByProcess, Parts: []lease.PartRecord{{GPU: "G", Memory: 4096, Slots: 1}}}
	named := &lease.LeaseRecord{User: "ada", PID: 4711, Binding: lease.ByName, Parts: []lease.PartRecord{{GPU: "G", Memory: 4096}}}
	for want, record := range map[string]lease.Record{
		"4 GiB and 1 slot on G, process 4711, ada": {Kind: lease.Bound, Lease: stored},
		"4 GiB on G, named, ada":                   {Kind: lease.Granted, Lease: named},
		"until Nov 15 12:00:00":                    {Kind: lease.Renewed, Expires: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC).UnixNano()},
		"it was not renewed":                       {Kind: lease.Expired, Why: "it was not renewed"},
	} {
		if got := recorded(record, screen{now: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)}); got != want {
			t.Errorf("%s says %q, want %q", record.Kind, got, want)
		}
	}
}
