package httpapi

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/history/events"
)

// widest notes how much was written at once.
type widest struct {
	*httptest.ResponseRecorder
	most int
}

func (w *widest) Write(b []byte) (int, error) {
	w.most = max(w.most, len(b))
	return w.ResponseRecorder.Write(b)
}

// What a reader does not read is kept for it, so events are sent a few at a
// time; each of them once, and in order.
func TestEventsAreSentAFewAtATime(t *testing.T) {
	d := open(t, "1xrtx-4060")
	const many = 900
	d.Events = events.New(many, time.UnixMicro(1000))
	for i := range many {
		d.Events.Publish(gpu.Event{Code: gpu.EventGranted, Severity: gpu.Note, User: "7", Text: fmt.Sprintf("number %d.%s", i, strings.Repeat("x", 2000))})
	}
	r := httptest.NewRequest("GET", "/api/events?follow=false", nil)
	w := &widest{ResponseRecorder: httptest.NewRecorder()}
	d.server.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), user(7))))
	text, at := w.Body.String(), 0
	for i := range many {
		next := strings.Index(text[at:], fmt.Sprintf("number %d.", i))
		if next < 0 {
			t.Fatalf("event %d is missing", i)
		}
		at += next
	}
	if n := strings.Count(text, "number "); n != many {
		t.Errorf("%d events were sent, want %d", n, many)
	}
	if w.most > len(text)*3/4 {
		t.Errorf("%d of %d bytes were written at once", w.most, len(text))
	}
}

// The daemon filters events, by what the reader may see of them.
func TestEventsAreFiltered(t *testing.T) {
	d := open(t, "2xrtx-4060")
	uuid := d.Monitor.Readings()[1].Device.UUID
	d.Events = events.New(100, time.UnixMicro(1000))
	for _, e := range []gpu.Event{
		{Code: gpu.EventGranted, Severity: gpu.Note, Lease: "a", User: "7", Text: "granted"},
		{Code: gpu.EventThrottle, Severity: gpu.Warning, GPU: uuid, Text: "hot"},
		{Code: gpu.EventCritical, Severity: gpu.Serious, GPU: uuid, Text: "hotter"},
		{Code: gpu.EventExpired, Severity: gpu.Warning, Lease: "b", User: "7", Text: "expired"},
	} {
		d.Events.Publish(e)
	}
	admin, viewer := holding(user(0).Holder, access.Admin), holding(user(8).Holder, access.Viewer)
	for _, c := range []struct {
		query string
		by    doorkeeper.Identity
		want  string
	}{
		{"", admin, "1000 1001 1002 1003"},
		{"&code=throttle&code=lease_expired", admin, "1001 1003"},
		{"&gpu=1", admin, "1001 1002"},
		{"&gpu=" + uuid, admin, "1001 1002"},
		{"&gpu=0", admin, ""},
		{"&lease=a&lease=b", admin, "1000 1003"},
		{"&lease=a&lease=b", viewer, ""}, // who does not see whose lease it is
		{"&severity=warning", viewer, "1001 1002 1003"},
		{"&severity=critical", admin, "1002"},
		{"&severity=warning&lease=b&after=1001", admin, "1003"},
		{"&code=throttle&after=5", admin, "999 1001"}, // a gap comes through
		{"&newest=2", admin, "1002 1003"},
		{"&newest=9", admin, "1000 1001 1002 1003"},
		{"&newest=1&gpu=1", admin, "1002"},
		{"&newest=3&lease=a", viewer, ""}, // who does not see whose lease it is
	} {
		r := httptest.NewRequest("GET", "/api/events?follow=false"+c.query, nil)
		w := httptest.NewRecorder()
		d.server.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), c.by)))
		var ids []string
		for line := range strings.Lines(w.Body.String()) {
			if id, found := strings.CutPrefix(line, "id: "); found {
				ids = append(ids, strings.TrimSpace(id))
			}
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%q gives %q, want %q", c.query, got, c.want)
		}
	}
}

// A stream that begins with the newest events goes on with each one that comes, once. One
// that goes on after an id has all since then.
func TestNewestEventsAndThoseAfter(t *testing.T) {
	d := open(t, "")
	synctest.Test(t, func(t *testing.T) {
		d.Events = events.New(100, time.UnixMicro(1000))
		publish := func(code gpu.EventCode) { d.Events.Publish(gpu.Event{Code: code, Severity: gpu.Note}) }
		for range 5 {
			publish(gpu.EventThrottle)
		}
		publish(gpu.EventCritical) // 1005
		ctx, stop := context.WithCancel(t.Context())
		read := func(query, last string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, "GET", "/api/events?"+query, nil)
			if last != "" {
				r.Header.Set("Last-Event-ID", last)
			}
			w := httptest.NewRecorder()
			go d.server.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), holding(user(0).Holder, access.Admin))))
			return w
		}
		begins, chooses, goesOn := read("newest=2", ""), read("newest=2&code=throttle", ""), read("newest=2", "1001")
		synctest.Wait()
		publish(gpu.EventThrottle) // 1006
		time.Sleep(time.Second)    // the stream gathers for a moment
		stop()
		synctest.Wait()
		for _, c := range []struct {
			title string
			got   *httptest.ResponseRecorder
			want  string
		}{{"a new stream", begins, "1004 1005 1006"}, {"one with a filter", chooses, "1003 1004 1006"}, {"one that goes on", goesOn, "1002 1003 1004 1005 1006"}} {
			var ids []string
			for line := range strings.Lines(c.got.Body.String()) {
				if id, found := strings.CutPrefix(line, "id: "); found {
					ids = append(ids, strings.TrimSpace(id))
				}
			}
			if got := strings.Join(ids, " "); got != c.want {
				t.Errorf("%s has %q, want %q", c.title, got, c.want)
			}
		}
	})
}

// What newest cannot mean is refused.
func TestNewestEventsAreRefused(t *testing.T) {
	d := open(t, "")
	for _, query := range []string{"newest=0", "newest=257", "newest=some", "newest=5&after=9", "newest=5&limit=5&follow=false"} {
		r := httptest.NewRequest("GET", "/api/events?"+query, nil)
		w := httptest.NewRecorder()
		d.server.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), user(7))))
		if w.Code != 422 || !strings.Contains(w.Body.String(), "newest") {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// Readers who are told of nothing learn how far the stream has come, so that
// they can go on from there.
func TestFilteredStreamSaysHowFarItIs(t *testing.T) {
	d := open(t, "")
	synctest.Test(t, func(t *testing.T) {
		d.Events = events.New(100, time.UnixMicro(1000))
		ctx, stop := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "GET", "/api/events?code=batch", nil)
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.server.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), holding(user(0).Holder, access.Admin))))
		}()
		time.Sleep(time.Second) // simulated
		for range 3 {
			d.Events.Publish(gpu.Event{Code: gpu.EventGranted, Severity: gpu.Note, Text: "granted"})
		}
		time.Sleep(2 * heartbeat) // simulated
		stop()
		<-done
		if want := "id: 1002\n\n: still here\n\n"; w.Body.String() != want {
			t.Errorf("stream is %q, want %q", w.Body, want)
		}
	})
}

// A few events are sent as they come, and then no more than one in gather, however many
// come; after a silence, a few are again.
func TestPaceOfEvents(t *testing.T) {
	now := time.Unix(1000, 0)
	var p pace
	at := func(wait time.Duration) int { // how many sends have to wait no longer than that
		for n := 0; ; n++ {
			if p.wait(now) > wait {
				return n
			}
		}
	}
	if n := at(0); n != few {
		t.Errorf("%d are sent at once after a silence, want %d", n, few)
	}
	p = pace{}
	sent, until := 0, now.Add(time.Second)
	for ; now.Before(until); sent++ { // a flood: there is always something to send
		now = now.Add(p.wait(now))
	}
	if most := int(time.Second/gather) + few + 1; sent > most+1 || sent < most-1 {
		t.Errorf("a flood is sent in %d parts a second, want %d", sent, most)
	}
	now = now.Add(few * gather)
	if n := at(0); n != few {
		t.Errorf("%d are sent at once after the flood, want %d", n, few)
	}
}
