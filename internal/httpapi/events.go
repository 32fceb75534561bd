package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/events"
)

const (
	// heartbeat is how often a silent stream says that it is alive, so that a
	// reader that went away without a word is noticed.
	heartbeat = 15 * time.Second
	// gather is how long a stream waits for more events before it sends them.
	gather = 10 * time.Millisecond
	// patience is how long one write to a reader may take before it is let go.
	patience = 10 * time.Second
	// mostAtOnce is how many events are encoded and sent at a time. What a
	// reader leaves in its socket is kept for it.
	mostAtOnce = 256
	// mostKept is more than is ever kept: a reader who does not follow has seen
	// everything by then, however fast new events come.
	mostKept = 16 << 10
)

func (s *server) registerEvents() {
	s.raw(&huma.Operation{
		OperationID: "events", Method: http.MethodGet, Path: "/api/events", Tags: []string{"events"},
		Summary: "Events as they happen, as server-sent events",
		Description: "Each event has an id, its code as the event name and the event as JSON data. To go on after a break, send the last id " +
			"seen in the header Last-Event-ID or in after; where events in between are no longer kept, one with the code gap comes first.",
		Parameters: []*huma.Param{
			{Name: "Last-Event-ID", In: "header", Description: "Only events after this id.", Schema: &huma.Schema{Type: "integer"}},
			{Name: "after", In: "query", Description: "The same, for clients that cannot set headers; the header goes before it.", Schema: &huma.Schema{Type: "integer"}},
			{Name: "follow", In: "query", Description: "false: send what is kept and end.", Schema: &huma.Schema{Type: "boolean", Default: true}},
		},
	}, "text/event-stream", s.events)
}

func (s *server) events(w http.ResponseWriter, r *http.Request) {
	after, follow, err := eventQuery(r)
	if err != nil {
		writeProblem(w, problem(http.StatusUnprocessableEntity, "invalid_request", "%v", err))
		return
	}
	var mine *queue // of a user's requests; nil: an administrator's, who need not wait
	if who := standingOf(r.Context()); who.role < access.Admin {
		q, leave := s.turns.follow(who.uid)
		if q == nil {
			writeProblem(w, tooManyStreams())
			return
		}
		defer leave()
		mine = q
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &eventWriter{w: w, control: http.NewResponseController(w), sight: sightOf(r.Context())}
	out.flush()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for sent := 0; out.err == nil; {
		found, more := s.Events.Entries(after, mostAtOnce)
		if len(found) > 0 {
			t := mine.enter(r.Context(), heavy)
			if t == nil {
				return
			}
			text := out.encode(found)
			t.leave()
			out.write(text)
			after, sent = found[len(found)-1].Event.ID, sent+len(found)
			if len(found) >= mostAtOnce && (follow || sent < mostKept) {
				continue // with what is kept by then: a slow reader holds nothing back
			}
		}
		out.flush()
		if !follow {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-more:
			// What comes in the next moment goes out with it, so that many
			// events do not wake every reader each time.
			pause(r.Context(), gather)
		case <-beat.C:
			out.write([]byte(": still here\n\n"))
		}
	}
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func eventQuery(r *http.Request) (after uint64, follow bool, err error) {
	query := r.URL.Query()
	for name := range query {
		if name != "after" && name != "follow" {
			return 0, false, fmt.Errorf("there is no parameter %q here: use after and follow.", name)
		}
	}
	// A browser that opened the stream with after says in the header how far
	// it has come since.
	last := cmp.Or(r.Header.Get("Last-Event-ID"), query.Get("after"))
	if last != "" {
		if after, err = strconv.ParseUint(last, 10, 64); err != nil {
			return 0, false, fmt.Errorf("%q is not an event id: it is a whole number, as it came with the event.", last)
		}
	}
	follow = true
	if q := query.Get("follow"); q != "" {
		if follow, err = strconv.ParseBool(q); err != nil {
			return 0, false, fmt.Errorf("follow is true or false, not %q.", q)
		}
	}
	return after, follow, nil
}

// eventWriter writes a stream until the first error, which it keeps.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sight   sight
	err     error
}

// encode is events as they travel, each as this reader sees it.
func (o *eventWriter) encode(found []*events.Entry) []byte {
	var text []byte
	for _, e := range found {
		v := o.sight.view(e.Event.User)
		data, err := e.JSON(v, func(e gpu.Event) gpu.Event { return shown(e, v) })
		if err != nil {
			o.err = err
			return text
		}
		text = fmt.Appendf(text, "id: %d\nevent: %s\ndata: %s\n\n", e.Event.ID, e.Event.Code, data)
	}
	return text
}

func (o *eventWriter) write(text []byte) {
	if o.err == nil {
		_ = o.control.SetWriteDeadline(time.Now().Add(patience)) // not every connection has deadlines; those that lack them cannot hang
		_, o.err = o.w.Write(text)
	}
}

func (o *eventWriter) flush() {
	if o.err == nil {
		o.err = o.control.Flush()
	}
}
