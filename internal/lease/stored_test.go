package lease

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// TestRecordVersion1 holds the format of version 1, which is on people's disks.
// This text never changes; a new version gets its own.
func TestRecordVersion1(t *testing.T) {
	b := newBook(t)
	replayText(t, b, version1)
	want := `{"v":1,"kind":"grant","time_ns":1794744000000000000,"id":"wells","fence":7,"lease":{"uid":1000,"user":"ada","service":"imaging","name":"python","pid":4711,"start":123456,"boot":"0b8a","binding":"ttl","ttl_ns":60000000000,"granted_ns":1794744000000000000,"expires_ns":1794744090000000000,"parts":[{"gpu":"GPU-1","memory_mb":4096,"slots":1},{"gpu":"GPU-2","memory_mb":4096}],"priority":5,"state":"parked","enforced_by":"mps","raised":true,"note":"raised"}}
{"v":1,"kind":"fence","fence":9}
`
	if got := b.Dump(); got != want {
		t.Errorf("read as\n%s\nwant\n%s", got, want)
	}
}

const version1 = `{"v":1,"kind":"grant","time_ns":1794744000000000000,"id":"wells","fence":7,"lease":{"uid":1000,"user":"ada","service":"imaging","name":"python","pid":4711,"start":123456,"boot":"0b8a","binding":"ttl","ttl_ns":30000000000,"granted_ns":1794744000000000000,"expires_ns":1794744030000000000,"parts":[{"gpu":"GPU-1","memory_mb":4096,"slots":1},{"gpu":"GPU-2","memory_mb":4096}],"priority":5,"state":"active","enforced_by":"mps","raised":true,"note":"raised"}}
{"v":1,"kind":"grant","time_ns":1794744001000000000,"id":"b","fence":8,"lease":{"uid":-1,"binding":"named","granted_ns":1794744001000000000,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
{"v":1,"kind":"grant","time_ns":1794744002000000000,"id":"c","fence":9,"lease":{"uid":0,"binding":"process","pid":1,"boot":"x","granted_ns":1794744002000000000,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
{"v":1,"kind":"renew","time_ns":1794744030000000000,"id":"wells","fence":7,"expires_ns":1794744090000000000,"ttl_ns":60000000000}
{"v":1,"kind":"park","time_ns":1794744031000000000,"id":"wells","fence":7,"why":"somebody more important waits"}
{"v":1,"kind":"resume","time_ns":1794744032000000000,"id":"wells","fence":7}
{"v":1,"kind":"park","time_ns":1794744033000000000,"id":"wells","fence":7,"a_field_of_tomorrow":{"x":[1]}}
{"v":1,"kind":"release","time_ns":1794744034000000000,"id":"b","fence":8,"why":"its holder died"}
{"v":1,"kind":"revoke","time_ns":1794744035000000000,"id":"c","fence":9}
`

// TestRecordVersion2 holds what version 2 added, in the same way.
func TestRecordVersion2(t *testing.T) {
	b := newBook(t)
	replayText(t, b, version2)
	want := `{"v":1,"kind":"grant","time_ns":5,"id":"c","fence":9,"lease":{"uid":1,"user":"ada","name":"berth","pid":43,"start":8,"boot":"y","binding":"process","granted_ns":5,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
{"v":1,"kind":"fence","fence":9}
`
	if got := b.Dump(); got != want {
		t.Errorf("read as\n%s\nwant\n%s", got, want)
	}
}

const version2 = `{"v":1,"kind":"grant","time_ns":5,"id":"c","fence":9,"lease":{"uid":1,"user":"ada","name":"berth","pid":42,"start":7,"boot":"x","binding":"process","granted_ns":5,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
{"v":2,"kind":"bind","time_ns":6,"id":"c","fence":9,"lease":{"uid":1,"user":"ada","name":"berth","pid":43,"start":8,"boot":"y","binding":"process","granted_ns":5,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
`

// TestEntriesSayWhoDidIt: each entry names who made the change, and the book
// keeps who asked for a lease, also through a compacted journal. An older berth
// makes the same book of it.
func TestEntriesSayWhoDidIt(t *testing.T) {
	b := newBook(t, roomy)
	r := &Request{ID: "job", Holder: alice(), By: actor(alice()), GPUs: 1, Memory: 4, Binding: ByTTL, TTL: time.Minute, Requested: noon, Deadline: noon}
	token := access.Actor{User: "token", UID: NoUID, Token: access.DaemonToken, Door: access.TCP, Role: access.Admin}
	const ada, byToken = `"by":{"uid":1000,"user":"alice","door":"socket"}`, `"by":{"uid":-1,"user":"token","token":"daemon","door":"tcp"}`
	kept := ""
	for _, c := range []struct {
		change  Change
		want    string
		version int
	}{
		{Grant{Lease: r.Lease(dev(0))}, ada, 1},
		{Renew{Key: r.Key(), By: actor(alice())}, ada, 1},
		{Park{Key: r.Key(), By: access.Daemon()}, `"by":{"uid":-1,"door":"daemon"}`, 5},
		{Resume{Key: r.Key(), By: token}, byToken, 5},
		{Release{Key: r.Key(), By: token}, byToken, 1},
	} {
		e := apply(t, b, c.change, noon)
		written := EntryOf(&e)
		if got := string(AppendEntry(nil, &written)); !strings.Contains(got, c.want) || written.Version != c.version {
			t.Errorf("%T is written as %s, want %s", c.change, got, c.want)
		}
		if e.After != nil {
			kept = b.Dump()
		}
	}
	if !strings.Contains(kept, ada) {
		t.Errorf("the book keeps\n%s", kept)
	}
	again := newBook(t)
	replayText(t, again, kept)
	if got := again.Dump(); got != kept {
		t.Errorf("read as\n%s\nwant\n%s", got, kept)
	}
	old := newBook(t)
	replayText(t, old, strings.ReplaceAll(kept, ada+",", ""))
	if got := old.Dump(); got != strings.ReplaceAll(kept, ada+",", "") {
		t.Errorf("without it read as\n%s", got)
	}
}

// What this berth writes is read the quick way, except for lists of names.
func TestEntriesAreReadQuickly(t *testing.T) {
	full := stored.New(stored.Grant)
	full.Time, full.ID, full.Fence, full.By = noon.UnixNano(), "train-1", 7, stored.By{UID: 1, User: "ada", Door: "socket"}
	full.SetLease(&stored.Lease{
		UID: 1, User: "ada", Name: "python3", PID: 4711, Start: 99, Boot: "b", Binding: "ttl", TTL: int64(time.Minute), Granted: noon.UnixNano(), Expires: noon.UnixNano() + 1,
		Parts: []stored.Part{{GPU: dev(0), Memory: 100, Slots: 1}}, State: "active", Cancelled: &stored.Cancelled{At: noon.UnixNano(), By: stored.By{UID: 1}},
	})
	audit, fence := stored.NewAudit(stored.AuditLine{Seq: 3, Hash: "00ff"}), stored.NewFence(9, "boot")
	for _, want := range []stored.Entry{full, audit, fence} {
		var got stored.Entry
		if text := AppendEntry(nil, &want); !entries.Read(text, &got) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}

// FuzzDecodeEntry: nothing on a disk can make the book panic or go wrong.
func FuzzDecodeEntry(f *testing.F) {
	for line := range strings.Lines(version1 + version2 + version4 + `{"v":1,"kind":"grant","id":"c","fence":9,"by":{"uid":1,"user":"ada","token":"t","door":"tcp"},"lease":{"uid":1,"binding":"named","granted_ns":5,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}`) {
		f.Add([]byte(line))
	}
	f.Add([]byte(`{"v":0,"kind":"fence","fence":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := stored.Decode(data)
		if quick, failed := decode(data); !reflect.DeepEqual(quick, r) || fmt.Sprint(failed) != fmt.Sprint(err) {
			t.Errorf("%s is read as %+v (%v), want %+v (%v)", data, quick, failed, r, err)
		}
		if err != nil {
			return
		}
		b := New()
		if b.Replay(&r) == nil {
			again := New()
			replayText(t, again, b.Dump())
			if again.Dump() != b.Dump() {
				t.Errorf("%s\nbecame\n%s", b.Dump(), again.Dump())
			}
		}
		if err := b.Check(); err != nil {
			t.Error(err)
		}
	})
}

// EntryOf returns the entry of a durable effect.
func EntryOf(e *Effect) stored.Entry { return EntryIn(new(stored.Lease), e) }

// Dump returns everything durable in the book as text, one entry a line, the
// same text for equal books. A compacted journal holds the same entries.
func (b *Book) Dump() string {
	var text []byte
	for r := range EntriesOf(b.Leases()) {
		text = append(AppendEntry(text, &r), '\n')
	}
	r := stored.NewFence(b.fence, "")
	return string(append(AppendEntry(text, &r), '\n'))
}
