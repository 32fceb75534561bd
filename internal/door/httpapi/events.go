package httpapi

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/history/events"
	"github.com/berth-gpu/berth/internal/lease/fair"
	"github.com/berth-gpu/berth/internal/when"
)

const (
	// heartbeat is how often a silent stream sends a comment. The write fails if
	// the reader is gone.
	heartbeat = 15 * time.Second
	// gather is how long a stream waits for more events before it sends them, if there
	// are many.
	gather = 3 * time.Millisecond
	// few is how many times in a row a stream sends what has happened at once.
	few = 100
	// patience is how long one write to a reader may take before the stream ends.
	patience = 10 * time.Second
	// mostAtOnce limits the events that a stream encodes and sends at a time. The
	// kernel buffers events that a reader does not read at once.
	mostAtOnce = 256
	// mostKept is more events than the log ever keeps. A stream that does not follow
	// ends after this number, however fast new events come.
	mostKept = 16 << 10
	// mostChosen limits the values of each parameter of a filter.
	mostChosen = 64
)

func registerEvents(s *server) {
	s.raw(huma.Operation{
		OperationID: "events", Method: http.MethodGet, Path: "/api/events", Tags: []string{"events"}, Errors: []int{http.StatusUnprocessableEntity},
		Summary: "Events as they happen, as server-sent events",
		Description: "Each event has an id, its code as the event name and the event as JSON data. To go on after a break, send the last id " +
			"seen in the header Last-Event-ID or in after; if the daemon no longer keeps some events in between, it first sends an event with the code gap. " +
			"The parameters code, gpu, lease and severity choose events; code, gpu and lease may be given several times. If no event matches for a while, " +
			"the stream sends an id without data that says how far it has come.",
		Parameters: []*huma.Param{
			{Name: "Last-Event-ID", In: "header", Description: "Only events after this id.", Schema: &huma.Schema{Type: "integer"}},
			{Name: "after", In: "query", Description: "The same, for clients that cannot set headers. The header wins over it.", Schema: &huma.Schema{Type: "integer"}},
			{Name: "limit", In: "query", Description: "With follow=false: send at most this many events. If there are more, the header Link has the address of the next page, with rel=\"next\".", Schema: &huma.Schema{Type: "integer"}},
			{Name: "newest", In: "query", Description: "Begin with the newest so many of the kept events, at most 256, and leave out those before them. Not with after or limit; a stream that goes on after Last-Event-ID ignores it.", Schema: &huma.Schema{Type: "integer"}},
			{Name: "follow", In: "query", Description: "false: send the kept events and end.", Schema: &huma.Schema{Type: "boolean", Default: true}},
			severalParam("code", "Only events with one of these codes."),
			severalParam("gpu", "Only events about one of these devices, by index or UUID."),
			severalParam("lease", "Only events about one of these leases, by ID or USER/ID."),
			{Name: "severity", In: "query", Description: "Only events of this severity or a higher one.",
				Schema: &huma.Schema{Type: "string", Enum: []any{string(gpu.Note), string(gpu.Warning), string(gpu.Serious)}}},
		},
	}, "text/event-stream", s.events)
}

// severalParam describes a parameter that may be repeated.
func severalParam(name, description string) *huma.Param {
	explode := true
	return &huma.Param{Name: name, In: "query", Description: description, Explode: &explode,
		Schema: &huma.Schema{Type: "array", Items: &huma.Schema{Type: "string"}}}
}

func (s *server) events(w http.ResponseWriter, r *http.Request) {
	q, refused := s.eventQuery(r)
	if refused != nil {
		problems.Write(w, refused)
		return
	}
	var mine *fair.Queue // of the user; nil for an administrator, who need not wait
	if who := standingOf(r.Context()); !exceeds(who) {
		limits := limitsOf(r.Context())
		queue, leave := s.queues.Follow(fair.UserOf(who), limits.Calls.Or(0), limits.Streams.Or(math.MaxInt32))
		if queue == nil {
			problems.Write(w, tooManyStreams(limits))
			return
		}
		defer leave()
		mine = queue
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &eventWriter{w: w, control: http.NewResponseController(w), sight: sightOf(r.Context()), filter: q.filter}
	if q.limit > 0 {
		s.eventPage(out, r, q, mine)
		return
	}
	out.flush()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	after, said := q.after, q.after // the last event examined, and the last id that the reader has
	if q.newest > 0 {
		t := mine.Enter(r.Context(), fair.Heavy)
		if t == nil {
			return
		}
		var found []*events.Entry
		found, after = s.newestEvents(out, q.newest)
		text := out.encode(found)
		t.Leave()
		out.write(text)
		if len(found) > 0 {
			said = found[len(found)-1].ID()
		}
		if !q.follow {
			out.flush()
			return
		}
	}
	var pace pace
	for sent := 0; out.err == nil; {
		found, more := s.Events.Entries(after, mostAtOnce)
		if len(found) > 0 {
			after, sent = found[len(found)-1].ID(), sent+len(found)
			whole := len(found) >= mostAtOnce
			t := mine.Enter(r.Context(), fair.Heavy)
			if t == nil {
				return
			}
			out.sight = sightOf(r.Context()) // the role of the reader may have changed
			if mayUse("GET /api/events", out.sight.Actor) != nil {
				t.Leave()
				return
			}
			found = out.choose(found)
			text := out.encode(found)
			t.Leave()
			if len(found) > 0 {
				out.write(text)
				said = found[len(found)-1].ID()
			}
			if whole && (q.follow || sent < mostKept) {
				continue // with the events kept by then, so that a slow reader does not keep older ones alive
			}
		}
		out.flush()
		if !q.follow {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-more:
			// A few events are sent at once. If there are many, those of a moment are
			// sent together, so that they do not wake every reader each time.
			if wait := pace.wait(time.Now()); wait > 0 {
				when.Pause(r.Context(), wait)
			}
		case <-beat.C:
			if said == after {
				out.write([]byte(": still here\n\n"))
				continue
			}
			// A reader that resumes from this id gets no gap event for events that
			// it did not ask for.
			out.write(fmt.Appendf(nil, "id: %d\n\n", after))
			said = after
		}
	}
}

// newestEvents returns the newest of the kept events that a reader chooses, and the id of
// the last event that it examined.
func (s *server) newestEvents(out *eventWriter, most int) (found []*events.Entry, last uint64) {
	found, _ = s.Events.Entries(0, math.MaxInt)
	if len(found) > 0 {
		last = found[len(found)-1].ID()
	}
	found = out.choose(found)
	return found[max(0, len(found)-most):], last
}

// eventPage writes the first events that a query selects, and the address of the page
// after them.
func (s *server) eventPage(out *eventWriter, r *http.Request, q eventQuery, mine *fair.Queue) {
	t := mine.Enter(r.Context(), fair.Heavy)
	if t == nil {
		return
	}
	var page []*events.Entry
	more := false
	for after := q.after; !more; {
		found, _ := s.Events.Entries(after, mostAtOnce)
		if len(found) == 0 {
			break
		}
		after = found[len(found)-1].ID()
		whole := len(found) >= mostAtOnce
		page = append(page, out.choose(found)...)
		if more = len(page) > q.limit; !whole { // that was the newest event
			break
		}
	}
	if more {
		page = page[:q.limit]
		asked := Address{url: *r.URL}
		out.w.Header().Set("Link", asked.next(strconv.FormatUint(page[len(page)-1].ID(), 10)))
	}
	text := out.encode(page)
	t.Leave()
	out.write(text)
	out.flush()
}

// pace keeps a stream from sending more often than once in gather on average, and lets it
// send at once a few times after a silence.
type pace struct{ next time.Time } // when it would send if it had always sent once in gather

// wait returns how long the stream waits before it sends what came now.
func (p *pace) wait(now time.Time) time.Duration {
	if longest := now.Add(-few * gather); p.next.Before(longest) {
		p.next = longest
	}
	p.next = p.next.Add(gather)
	return max(p.next.Sub(now), 0)
}

// eventQuery has the parameters of an event stream.
type eventQuery struct {
	after  uint64
	follow bool
	limit  int // of a page; 0 if the stream is no page
	newest int // of the kept events; 0 for all of them
	filter gpu.EventFilter
}

// eventQuery parses the parameters of a request, or returns the problem with them.
func (s *server) eventQuery(r *http.Request) (q eventQuery, refused *api.Problem) {
	wrong := func(format string, args ...any) (eventQuery, *api.Problem) {
		return eventQuery{}, problems.New(http.StatusUnprocessableEntity, "invalid_request", format, args...)
	}
	query := r.URL.Query()
	for name, values := range query {
		switch name {
		case "after", "follow", "limit", "newest", "severity":
		case "code", "gpu", "lease":
			if len(values) > mostChosen {
				return wrong("%s is given %d times: at most %d are allowed.", name, len(values), mostChosen)
			}
		default:
			return wrong("There is no parameter %q here: %s", name, words.Suggest(name, []string{"after", "follow", "limit", "newest", "code", "gpu", "lease", "severity"}, "use after, follow, limit, newest, code, gpu, lease and severity."))
		}
	}
	// A browser that opened the stream with after says in the header how far it has
	// come since then.
	last := cmp.Or(r.Header.Get("Last-Event-ID"), query.Get("after"))
	var err error
	if last != "" {
		if q.after, err = strconv.ParseUint(last, 10, 64); err != nil {
			return wrong("%q is not an event id: it is a whole number, as it came with the event.", last)
		}
	}
	q.follow = true
	if text := query.Get("follow"); text != "" {
		if q.follow, err = strconv.ParseBool(text); err != nil {
			return wrong("follow is true or false, not %q.", text)
		}
	}
	if text := query.Get("limit"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil || q.limit < 1 || q.limit > mostListed {
			return wrong("limit is a number from 1 to %d, not %q.", mostListed, text)
		}
		if q.follow {
			return wrong("limit is for the events that are kept: give follow=false with it.")
		}
	}
	if text := query.Get("newest"); text != "" {
		if q.newest, err = strconv.Atoi(text); err != nil || q.newest < 1 || q.newest > mostAtOnce {
			return wrong("newest is a number from 1 to %d, not %q.", mostAtOnce, words.Cut(text, mostGiven))
		}
		if query.Has("after") || q.limit > 0 {
			return wrong("newest says where a stream begins: leave out after and limit, or leave out newest.")
		}
		if last != "" { // it goes on
			q.newest = 0
		}
	}
	for _, code := range query["code"] {
		if !slices.Contains(gpu.EventCodes(), gpu.EventCode(code)) {
			return wrong("There is no event code %q: %s", words.Cut(code, mostGiven), words.Suggest(code, eventCodes(), "berth help event-codes lists the codes."))
		}
		q.filter.Codes = append(q.filter.Codes, gpu.EventCode(code))
	}
	switch severity := gpu.Severity(query.Get("severity")); severity {
	case "", gpu.Note, gpu.Warning, gpu.Serious:
		q.filter.Severity = severity
	default:
		return wrong("severity is %q: write %s, %s or %s.", words.Cut(string(severity), mostGiven), gpu.Note, gpu.Warning, gpu.Serious)
	}
	q.filter.Leases = query["lease"]
	for _, ref := range query["gpu"] {
		device, err := s.Desk.Devices.Find(ref)
		if err != nil {
			return eventQuery{}, problemOf(err)
		}
		q.filter.GPUs = append(q.filter.GPUs, device.Device.UUID)
	}
	return q, nil
}

// eventCodes returns the codes of events.
func eventCodes() (codes []string) {
	for _, code := range gpu.EventCodes() {
		codes = append(codes, string(code))
	}
	return codes
}

// eventWriter writes a stream until the first error, which it keeps.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sight   sight
	filter  gpu.EventFilter
	err     error
}

// choose returns the events that match the filter of the reader. It filters each
// event as the reader sees it, so that a filter does not reveal what a view hides.
func (o *eventWriter) choose(found []*events.Entry) []*events.Entry {
	if o.filter.IsZero() {
		return found
	}
	return slices.DeleteFunc(found, func(e *events.Entry) bool {
		return !o.filter.Matches(shown(*e.Event(), o.sight.view(e.Head().User)))
	})
}

// encode encodes events as server-sent events, each as this reader sees it.
func (o *eventWriter) encode(found []*events.Entry) []byte {
	var text []byte
	for _, e := range found {
		v := o.sight.view(e.Head().User)
		data := e.JSON(v, func(e gpu.Event) gpu.Event { return shown(e, v) })
		text = fmt.Appendf(text, "id: %d\nevent: %s\ndata: %s\n\n", e.ID(), e.Head().Code, data)
	}
	return text
}

func (o *eventWriter) write(text []byte) {
	if o.err == nil {
		_ = o.control.SetWriteDeadline(time.Now().Add(patience)) // a connection without deadlines cannot hang
		_, o.err = o.w.Write(text)
	}
}

func (o *eventWriter) flush() {
	if o.err == nil {
		o.err = o.control.Flush()
	}
}
