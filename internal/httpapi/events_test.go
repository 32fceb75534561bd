package httpapi

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/events"
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
	d.server.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), identity{Actor: user(7), role: access.User})))
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
