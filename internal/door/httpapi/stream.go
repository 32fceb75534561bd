package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/fair"
	"github.com/berth-gpu/berth/internal/text/words"
)

const (
	// maxCalls limits the calls under way on one stream.
	maxCalls = 1024
	// farewell is how long a stream may take to send its last answers when the
	// daemon stops.
	farewell = time.Second
)

func registerStream(s *server) {
	op := on("POST "+wire.Path, "leases", "lease-stream", "Acquire, renew and release over one connection, with less overhead than HTTP",
		"Send Connection: Upgrade and Upgrade: "+wire.Protocol+". After the 101 both sides send frames, as berth help lease-protocol "+
			"specifies them; bodies, answers and problem codes are those of the paths that do the same. When the connection ends, the daemon withdraws its waiting requests.",
		http.StatusUpgradeRequired)
	op.Parameters = []*huma.Param{{Name: "Upgrade", In: "header", Required: true, Schema: &huma.Schema{Type: "string", Enum: []any{wire.Protocol}}}}
	op.Responses = map[string]*huma.Response{"101": {Description: "The connection is a lease stream from here on."}}
	s.raw(op, "application/octet-stream", s.stream)
	delete(op.Responses, "200")
	s.bodies = bodies{
		registry: s.api.OpenAPI().Components.Schemas,
		acquire:  schemaOf[api.LeaseRequest](s.api),
		release:  unlisted[api.Release](s.api),
		renew:    unlisted[api.Renewal](s.api),
	}
}

func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), wire.Protocol) {
		w.Header().Set("Upgrade", wire.Protocol)
		problems.Write(w, problems.New(http.StatusUpgradeRequired, "upgrade_required",
			"This path is for a stream: send Connection: Upgrade and Upgrade: %s. POST /api/leases takes one request at a time.", wire.Protocol))
		return
	}
	s.Streams.Add(1) // before Hijack, while the server still waits for the connection
	defer s.Streams.Done()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		problems.Write(w, problems.New(http.StatusNotImplemented, "no_stream", "This connection cannot become a stream. Use POST /api/leases."))
		return
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + wire.Protocol + "\r\n\r\n")); err != nil {
		return
	}
	st := newStream(s, r.Context(), conn, buffered.Reader)
	who := standingOf(r.Context())
	st.uid = fair.UserOf(who)
	if !exceeds(who) {
		var leave func()
		st.queue, leave = s.queues.Join(fair.UserOf(who), limitsOf(r.Context()).Calls.Or(0))
		defer leave()
	}
	st.serve()
}

// leaseStream serves the calls of one connection.
type leaseStream struct {
	*server
	conn   net.Conn
	in     *wire.Reader
	ctx    context.Context // ends with the connection, or with the daemon
	cancel context.CancelFunc

	most    int            // calls that may be under way at once
	grace   time.Duration  // see farewell
	queue   *fair.Queue    // of the user; nil for an administrator, who has none
	uid     int            // of the user
	working sync.WaitGroup // goroutines that run calls

	// writing guards the sending half of conn, and out.
	writing sync.Mutex
	out     []byte

	// mu guards calls, which has the function that withdraws each call under way.
	mu    sync.Mutex
	calls map[uint32]context.CancelFunc
}

func newStream(s *server, ctx context.Context, conn net.Conn, in *bufio.Reader) *leaseStream {
	st := &leaseStream{
		server: s, conn: conn, in: wire.NewReader(in, wire.MaxRequest), calls: map[uint32]context.CancelFunc{}, most: maxCalls, grace: farewell,
	}
	st.ctx, st.cancel = context.WithCancel(ctx)
	return st
}

// serve takes calls until the connection ends, the daemon stops, or a frame is not
// valid. It then withdraws the waiting calls.
func (st *leaseStream) serve() {
	hurry := context.AfterFunc(st.ctx, func() {
		_ = st.conn.SetReadDeadline(time.Now())
		_ = st.conn.SetWriteDeadline(time.Now().Add(st.grace))
	})
	defer hurry()
	for {
		frame, err := st.in.Next()
		if err == nil {
			err = st.take(frame)
		}
		if err == nil {
			continue
		}
		if size := (*wire.SizeError)(nil); errors.As(err, &size) {
			err = badFrame("%v", size)
		}
		if bad := (*api.Problem)(nil); errors.As(err, &bad) {
			st.refuse(frame.Number, bad)
		}
		break
	}
	st.cancel()
	st.working.Wait()
}

// badFrame returns the problem of a frame that ends the stream.
func badFrame(format string, args ...any) *api.Problem {
	return problems.New(http.StatusBadRequest, "bad_frame", "%s. The stream ends here; berth help lease-protocol describes the frames.",
		words.UpperFirst(fmt.Sprintf(format, args...)))
}

// take begins a call. An error from take ends the stream. A call of a caller who lost
// their role since the stream began is an error.
func (st *leaseStream) take(f wire.Frame) error {
	const route = "POST " + wire.Path
	who := standingOf(st.ctx)
	st.called(st.ctx, route, who)
	if refused := mayUse(route, who); refused != nil {
		return refused
	}
	switch f.Kind {
	case wire.Acquire:
		b := new(api.LeaseRequest)
		return st.begin(f, st.bodies.acquire, (*wire.RequestBody)(b), func(ctx context.Context) (wire.Body, error) {
			granted, err := st.Desk.Leases.Acquire(ctx, askerOf(ctx), *b)
			if err != nil {
				return nil, problemOf(asID(err))
			}
			return (*wire.LeaseBody)(&granted), nil
		})
	case wire.Release:
		b := new(wire.ReleaseBody)
		return st.begin(f, st.bodies.release, b, func(ctx context.Context) (wire.Body, error) {
			ended, err := st.Desk.Leases.Release(ctx, askerOf(ctx), lease.Name{User: b.User, ID: b.ID}, b.Fence, b.KeepRunning)
			if err != nil {
				return nil, problemOf(err)
			}
			return (*wire.EndedBody)(&ended), nil
		})
	case wire.Renew:
		b := new(wire.RenewalBody)
		return st.begin(f, st.bodies.renew, b, func(ctx context.Context) (wire.Body, error) {
			renewed, err := st.Desk.Leases.Renew(ctx, askerOf(ctx), lease.Name{User: b.User, ID: b.ID}, api.Renew{Fence: b.Fence, TTL: b.TTL})
			if err != nil {
				return nil, problemOf(err)
			}
			return (*wire.LeaseBody)(&renewed), nil
		})
	case wire.Cancel:
		st.withdraw(f.Number)
		return nil
	}
	return badFrame("there is no frame of kind %d", f.Kind)
}

// send writes an answer. It closes the connection of a caller that does not read;
// serve then ends, because reading fails too.
func (st *leaseStream) send(kind wire.Kind, number uint32, body wire.Body) {
	st.writing.Lock()
	defer st.writing.Unlock()
	st.out = wire.Append(st.out[:0], kind, number, body)
	if _, err := st.conn.Write(st.out); err != nil {
		_ = st.conn.Close()
	}
}

func (st *leaseStream) refuse(number uint32, err error) {
	if p := (*api.Problem)(nil); errors.As(err, &p) {
		st.refused(st.ctx, http.MethodPost, wire.Path, "POST "+wire.Path, p)
	}
	st.send(wire.Refused, number, refusal{err})
}

// refusal is a problem as the body of a frame.
type refusal struct{ error }

func (r refusal) Append(dst []byte) []byte {
	text, err := json.Marshal(r.error)
	if err != nil {
		panic(err) // cannot happen: problems are made in this package
	}
	return append(dst, text...)
}
