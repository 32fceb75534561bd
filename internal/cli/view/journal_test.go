package view

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/lease/stored"
	"github.com/berth-gpu/berth/internal/text/term"
)

// An entry says who did it, if it was written by a berth that knew.
func TestRecordedBy(t *testing.T) {
	for want, by := range map[string]stored.By{
		"":                         {},
		"by berth":                 {UID: -1, Door: "daemon"},
		"by ada over socket":       {UID: 1000, User: "ada", Door: "socket"},
		"by token daemon over tcp": {UID: -1, User: "token", Token: "daemon", Door: "tcp"},
	} {
		if got := recordedBy(by); got != want {
			t.Errorf("%+v says %q, want %q", by, got, want)
		}
	}
}

// What an entry says beside its kind and its lease: for one that is bound to a
// process, which that is.
func TestRecorded(t *testing.T) {
	running := &stored.Lease{User: "ada", PID: 4711, Binding: "process", Parts: []stored.Part{{GPU: "G", Memory: 4096, Slots: 1}}}
	named := &stored.Lease{User: "ada", PID: 4711, Binding: "named", Parts: []stored.Part{{GPU: "G", Memory: 4096}}}
	for want, r := range map[string]stored.Entry{
		"4 GiB and 1 slot on G, process 4711, ada": {Kind: stored.Bind, Lease: running},
		"4 GiB on G, named, ada":                   {Kind: stored.Grant, Lease: named},
		"until Nov 15 12:00:00":                    {Kind: stored.Renew, Expires: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC).UnixNano()},
		"it was not renewed":                       {Kind: stored.Expire, Why: "it was not renewed"},
	} {
		if got := recorded(r, term.Screen{Now: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)}); got != want {
			t.Errorf("%s says %q, want %q", r.Kind, got, want)
		}
	}
}
