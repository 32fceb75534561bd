package lease

import (
	"fmt"
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
	r.Holder.Service = "render"
	k, by, at := r.Key(), actor(alice()), noon.Add(5*time.Second)
	late := *r
	late.ID = "late"
	for _, c := range []struct {
		change Change
		at     time.Time
		spared []string
		text   string // empty: none is told
		rest   string
		later  bool
	}{
		{Ask{&late}, noon, nil, "late waits for 40 MiB, until 13:00:00 at the latest", "lease_waiting of alice on , map[gpus:1 memory_mb:40 slots:2]", false},
		{TimeOut{late.Key()}, late.Deadline, nil, "late waited 60 min for 40 MiB and did not get it", "lease_timeout of  on , map[gpus:1 memory_mb:40 slots:2]", false},
		{Grant{Lease: r.Lease(dev(0))}, noon, nil, "job holds 40 MiB and 2 slots on GPU 0 for render, alice", "lease_granted of alice on GPU-0, map[fence:1 memory_mb:40 slots:2]", true},
		{Renew{Key: k, By: by}, at, nil, "job was renewed", "lease_renewed of alice on GPU-0, map[fence:1 held_seconds:5 memory_mb:40 slots:2]", true},
		{Renew{Key: k, By: access.Daemon()}, at, nil, "", " of  on , map[]", false},
		{Resize{Key: k, Memory: 50, By: by}, at, nil, "job was resized from 40 MiB to 50 MiB on GPU 0", "lease_resized of alice on GPU-0, map[fence:1 held_seconds:5 memory_mb:50 slots:2 was_mb:40]", false},
		{Release{Key: k, By: by}, at, nil, "job was released", "lease_released of alice on GPU-0, map[fence:1 held_seconds:5 memory_mb:50 slots:2]", true},
		{Grant{Lease: r.Lease(dev(0))}, noon, nil, "job holds 40 MiB and 2 slots on GPU 0 for render, alice", "lease_granted of alice on GPU-0, map[fence:2 memory_mb:40 slots:2]", true},
		{Release{Key: k, By: by, Why: "done"}, at, nil, "job was released: done", "lease_released of alice on GPU-0, map[fence:2 held_seconds:5 memory_mb:40 slots:2]", false},
		{Grant{Lease: r.Lease(dev(0))}, noon, nil, "job holds 40 MiB and 2 slots on GPU 0 for render, alice", "lease_granted of alice on GPU-0, map[fence:3 memory_mb:40 slots:2]", true},
		{Revoke{Key: k, By: access.Daemon(), Why: "heat"}, at, []string{"pid 7"}, "job was revoked: heat" + LeftAlone([]string{"pid 7"}),
			"lease_revoked of  on GPU-0, map[fence:3 held_seconds:5 memory_mb:40 slots:2 spared:[pid 7]]", false},
	} {
		e := apply(t, b, c.change, c.at)
		e.Spared = c.spared
		n, told := NoticeOf(&e, func(text []byte, _ []Part) []byte { return append(text, "GPU 0"...) })
		if later := n.Rest != nil; told != (c.text != "") || later != c.later {
			t.Errorf("%T: told %v, the rest later %v; want %q", c.change, told, later, c.text)
		}
		event := n.Whole()
		rest := fmt.Sprintf("%s of %s on %s, %v", event.Code, event.By.User, event.GPU, event.Data)
		if event.Text != c.text || rest != c.rest {
			t.Errorf("%T: %q, %s; want %q, %s", c.change, event.Text, rest, c.text, c.rest)
		}
		if c.spared != nil && event.Public != "job was revoked: heat; berth left processes alone that it may not signal here" {
			t.Errorf("others are told %q", event.Public)
		}
	}
}
