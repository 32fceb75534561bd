package lease

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/lease/stored"
)

type failer interface {
	Helper()
	Fatal(...any)
}

func replayText(t failer, b *Book, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		r, err := stored.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Replay(&r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReplayRefuses: an entry that cannot be true changes nothing.
func TestReplayRefuses(t *testing.T) {
	b := newBook(t)
	replayText(t, b, `{"v":1,"kind":"grant","id":"a","fence":3,"lease":{"uid":1,"user":"u","binding":"ttl","ttl_ns":1000000000,"granted_ns":5,"expires_ns":1000000005,"parts":[{"gpu":"GPU-0","memory_mb":4}],"state":"active"}}
{"v":1,"kind":"grant","id":"b","fence":5,"lease":{"uid":1,"binding":"named","granted_ns":5,"parts":[{"gpu":"GPU-0","slots":1}],"state":"parked"}}`)
	before := b.Dump()
	for name, line := range map[string]string{
		"a fence twice":           `{"v":1,"kind":"grant","id":"c","fence":5,"lease":{"uid":1,"binding":"named","parts":[{"gpu":"GPU-0","slots":1}],"state":"active"}}`,
		"a fence mark backwards":  `{"v":1,"kind":"fence","fence":4}`,
		"an id twice":             `{"v":1,"kind":"grant","id":"a","fence":9,"lease":{"uid":1,"binding":"named","parts":[{"gpu":"GPU-0","slots":1}],"state":"active"}}`,
		"a grant of nothing":      `{"v":1,"kind":"grant","id":"c","fence":9}`,
		"no part":                 `{"v":1,"kind":"grant","id":"c","fence":9,"lease":{"uid":1,"binding":"named","parts":[],"state":"active"}}`,
		"a device twice":          `{"v":1,"kind":"grant","id":"c","fence":9,"lease":{"uid":1,"binding":"named","parts":[{"gpu":"G","slots":1},{"gpu":"G","slots":1}],"state":"active"}}`,
		"negative memory":         `{"v":1,"kind":"grant","id":"c","fence":9,"lease":{"uid":1,"binding":"named","parts":[{"gpu":"G","memory_mb":-4}],"state":"active"}}`,
		"an unknown state":        `{"v":1,"kind":"grant","id":"c","fence":9,"lease":{"uid":1,"binding":"named","parts":[{"gpu":"G","slots":1}],"state":"gone"}}`,
		"an unknown binding":      `{"v":1,"kind":"grant","id":"c","fence":9,"lease":{"uid":1,"binding":"love","parts":[{"gpu":"G","slots":1}],"state":"active"}}`,
		"a bad id":                `{"v":1,"kind":"grant","id":"c\n","fence":9,"lease":{"uid":1,"binding":"named","parts":[{"gpu":"G","slots":1}],"state":"active"}}`,
		"an end of nobody":        `{"v":1,"kind":"release","id":"c","fence":5}`,
		"an end of another lease": `{"v":1,"kind":"release","id":"a","fence":2}`,
		"an unknown kind":         `{"v":1,"kind":"dance","id":"a","fence":3}`,
		"a request":               `{"v":1,"kind":"ask","id":"a","fence":3}`,
		"a renewal of a named":    `{"v":1,"kind":"renew","id":"b","fence":5,"ttl_ns":1000000000,"expires_ns":9}`,
		"a bind of a named":       `{"v":2,"kind":"bind","id":"b","fence":5,"lease":{"uid":1,"binding":"named","pid":4,"boot":"x","parts":[{"gpu":"GPU-0","slots":1}],"state":"parked"}}`,
		"a bind to nobody":        `{"v":2,"kind":"bind","id":"b","fence":5}`,
		"a renewal for a century": `{"v":1,"kind":"renew","id":"a","fence":3,"ttl_ns":3155760000000000000,"expires_ns":9}`,
		"a size of another user":  `{"v":6,"kind":"resize","id":"a","fence":3,"lease":{"uid":2,"user":"u","binding":"ttl","ttl_ns":1000000000,"granted_ns":5,"expires_ns":1000000005,"parts":[{"gpu":"GPU-0","memory_mb":5}],"state":"active"}}`,
		"a size elsewhere":        `{"v":6,"kind":"resize","id":"a","fence":3,"lease":{"uid":1,"user":"u","binding":"ttl","ttl_ns":1000000000,"granted_ns":5,"expires_ns":1000000005,"parts":[{"gpu":"GPU-1","memory_mb":5}],"state":"active"}}`,
		"a size of a pool":        `{"v":6,"kind":"resize","id":"a","fence":3,"lease":{"uid":1,"user":"u","binding":"ttl","ttl_ns":1000000000,"granted_ns":5,"expires_ns":1000000005,"parts":[{"gpu":"GPU-0","memory_mb":5}],"state":"active","pool":true}}`,
	} {
		r, err := stored.Decode([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := b.Replay(&r); !errors.Is(err, ErrReplay) || !strings.HasPrefix(err.Error(), "replay ") {
			t.Errorf("%s: %v", name, err)
		}
		if b.Dump() != before {
			t.Fatalf("%s: changed the book to\n%s", name, b.Dump())
		}
	}
}

// Whoever follows a journal learns what each entry made of its lease.
func TestFollow(t *testing.T) {
	b := newBook(t)
	for _, c := range []struct {
		line          string
		before, after bool
	}{
		{`{"v":1,"kind":"grant","id":"a","fence":3,"lease":{"uid":1,"binding":"named","parts":[{"gpu":"GPU-0","slots":1}],"state":"active"}}`, false, true},
		{`{"v":1,"kind":"fence","fence":4}`, false, false},
		{`{"v":1,"kind":"park","id":"a","fence":3}`, true, true},
		{`{"v":1,"kind":"release","id":"a","fence":3}`, true, false},
	} {
		if _, e, err := b.Follow([]byte(c.line)); err != nil || (e.Before != nil) != c.before || (e.After != nil) != c.after {
			t.Errorf("%s: %+v, %v", c.line, e, err)
		}
	}
}

// A lease stands although its device is gone, and counts as soon as it is back.
func TestReplayBeforeTheDeviceIsSeen(t *testing.T) {
	b := newBook(t, Capacity{Total: 10, MaxPipelines: 2, Usable: 2})
	grant(t, b, &Request{ID: "a", Memory: 6, Slots: 1, GPUs: 1, Binding: ByName}, dev(0))
	again := newBook(t)
	replayText(t, again, b.Dump())
	if s, ok := again.Sum(dev(0)); !ok || s.Available() != -6 || s.FreeSlots() != 0 {
		t.Errorf("without its device: %+v", s)
	}
	again.SetCapacity(dev(0), Capacity{Total: 10, MaxPipelines: 2, Usable: 2})
	if s, _ := again.Sum(dev(0)); s.Available() != 4 || s.FreeSlots() != 1 {
		t.Errorf("with its device: %+v", s)
	}
	if again.Fence() != 1 || again.Lease(only(again, "a")) == nil {
		t.Errorf("fence %d, lease %v", again.Fence(), again.Lease(only(again, "a")))
	}
}

// Time zones and the monotonic clock are lost in an entry; the instant is not.
func TestReplayKeepsInstants(t *testing.T) {
	b := newBook(t, Capacity{Total: 10})
	at := noon.Add(123456789 * time.Nanosecond).In(time.FixedZone("", 3600))
	l := (&Request{ID: "a", Memory: 1, Binding: ByTTL, TTL: time.Minute}).Lease(dev(0))
	if _, err := b.Apply(Grant{Lease: l}, at); err != nil {
		t.Fatal(err)
	}
	again := newBook(t)
	replayText(t, again, b.Dump())
	if got := again.Lease(only(again, "a")); !got.Granted.Equal(at) || !got.Expires.Equal(at.Add(time.Minute)) {
		t.Errorf("granted %s, expires %s", got.Granted, got.Expires)
	}
}

// TestReplayOfParking: a parked lease comes back as it was, with its times, and an
// earlier berth's entries of parking, which had no lease in them, are still read.
func TestReplayOfParking(t *testing.T) {
	text, err := os.ReadFile("stored/testdata/park.records")
	if err != nil {
		t.Fatal(err)
	}
	b := newBook(t)
	replayText(t, b, string(text))
	train, short := b.Lease(only(b, "train")), b.Lease(only(b, "short"))
	if train.State != Parked || !train.Parkable || train.ParkedAt.Sub(train.Granted) != 10*time.Second {
		t.Errorf("the parked lease is %+v", train)
	}
	if ends, limited := short.Ends(); !limited || ends.Sub(short.Granted) != time.Hour+100*time.Second || short.Asked != 4096 || short.Expires.Sub(short.Returned) != 50*time.Second {
		t.Errorf("the lease that returned is %+v and ends at %s", short, ends)
	}
	if next, any := b.Next(); !any || !next.Equal(short.Expires) {
		t.Errorf("the next thing is due at %s", next)
	}
	r := stored.Entry{Version: 1, Kind: stored.Resume, Time: 5, ID: "train", Fence: 1}
	if err := b.Replay(&r); err != nil || b.Lease(only(b, "train")).State != Active {
		t.Errorf("a resume of an earlier berth: %v, %+v", err, b.Lease(only(b, "train")))
	}
	r = EntryOf(&Effect{Kind: Resumed, Before: train, After: train}) // the lease in it is parked
	if err := b.Replay(&r); !errors.Is(err, ErrReplay) {
		t.Errorf("a resume with a parked lease in it: %v", err)
	}
}
