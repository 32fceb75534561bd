package lease

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// What people read about each effect, and for which of them that is made only when somebody
// reads it.
func TestNotices(t *testing.T) {
	b := newBook(t, roomy)
	r := &Request{
		ID: "job", Holder: alice(), By: actor(alice()), GPUs: 1, Memory: 40, Slots: 2, Binding: ByTTL, TTL: time.Hour,
		Requested: noon, Deadline: noon.Add(time.Hour),
	}
	k, by, at := r.Key(), actor(alice()), noon.Add(5*time.Second)
	late := *r
	late.ID = "late"
	const held = 5.0 // seconds
	for _, c := range []struct {
		change Change
		at     time.Time
		alter  func(*Effect)
		text   string // empty: none is told
		later  bool
		held   any
	}{
		{Ask{&late}, noon, nil, "late waits for 40 MiB, until 13:00:00 at the latest", false, nil},
		{TimeOut{late.Key()}, late.Deadline, nil, "late waited 60 min for 40 MiB and did not get it", false, nil},
		{Ask{r}, noon, nil, "job waits for 40 MiB, until 13:00:00 at the latest", false, nil},
		{Grant{Lease: r.Lease(dev(0))}, noon, nil, "job holds 40 MiB and 2 slots on GPU 0 for alice", true, nil},
		{Renew{Key: k, By: by}, at, nil, "job was renewed", true, held},
		{Renew{Key: k, By: access.Daemon()}, at, nil, "", false, nil},
		{Resize{Key: k, Memory: 50, By: by}, at, nil, "job was resized from 40 MiB to 50 MiB on GPU 0", false, held},
		{Release{Key: k, By: by}, at, nil, "job was released", true, held},
		{Grant{Lease: r.Lease(dev(0))}, noon, nil, "job holds 40 MiB and 2 slots on GPU 0 for alice", true, nil},
		{Release{Key: k, By: by, Why: "done"}, at, nil, "job was released: done", false, held},
		{Grant{Lease: r.Lease(dev(0))}, noon, nil, "job holds 40 MiB and 2 slots on GPU 0 for alice", true, nil},
		{Release{Key: k, By: by}, at, func(e *Effect) { e.Spared = []string{"pid 7"} }, "job was released" + LeftAlone([]string{"pid 7"}), false, held},
	} {
		e := apply(t, b, c.change, c.at)
		if c.alter != nil {
			c.alter(&e)
		}
		n, told := NoticeOf(&e, func(text []byte, _ []Part) []byte { return append(text, "GPU 0"...) })
		if later := n.Rest != nil; told != (c.text != "") || later != c.later {
			t.Errorf("%T: told %v, the rest later %v; want %q", c.change, told, later, c.text)
		}
		if event := n.Whole(); event.Text != c.text || event.Data["held_seconds"] != c.held {
			t.Errorf("%T: %q, held for %v seconds; want %q, %v", c.change, event.Text, event.Data["held_seconds"], c.text, c.held)
		}
	}
}
