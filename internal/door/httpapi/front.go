package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/job/owner"
)

// orderPatience is how long a front may take to read an order.
const orderPatience = 10 * time.Second

// longestFront is the most characters in the name that a front makes up.
const longestFront = 64

func registerFront(s *server) {
	const down = http.StatusServiceUnavailable
	on := func(pattern, id, summary, description string, errors ...int) huma.Operation {
		return on(pattern, "front", id, summary, description+" For the front of this daemon, and for nobody else.", errors...)
	}
	orders := on("GET /api/front/orders", "front-orders", "What the front has to do", "A stream of lines, each a FrontOrder in JSON, until the front leaves or asks again.", http.StatusUnprocessableEntity, down)
	longest := longestFront
	orders.Parameters = []*huma.Param{
		{Name: "front", In: "query", Required: true, Description: "The name that the front has made up for itself.", Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &longest, Pattern: "^[a-z0-9]+$"}},
	}
	s.raw(orders, "application/x-ndjson", s.frontOrders)
	request(s, on("POST /api/front/reports", "front-reports", "What the front did and saw", "", down), func(_ context.Context, by desk.Caller, b api.FrontReports) (api.FrontTaken, error) {
		return api.FrontTaken{Number: b.Number}, s.Desk.Services.FrontReports(by, b)
	})
	request(s, on("POST /api/front/bring", "front-bring", "Bring a service", "The answer comes when the service is open, or will not come. A front that hangs up has nobody left who waits.", http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests, down, http.StatusGatewayTimeout, http.StatusBadGateway),
		func(ctx context.Context, by desk.Caller, b api.FrontBring) (api.FrontBrought, error) {
			brought, err := s.Desk.Services.FrontBring(ctx, by, b)
			if no := (*owner.Refusal)(nil); errors.As(err, &no) {
				return brought, notBrought(no)
			}
			return brought, err
		})
	request(s, on("POST /api/front/caller", "front-caller", "Who a caller of the front is", "", http.StatusUnauthorized, down), func(_ context.Context, by desk.Caller, b api.FrontWho) (api.FrontCaller, error) {
		if err := s.Desk.Services.FrontCalled(by); err != nil {
			return api.FrontCaller{}, err
		}
		return s.Door.Behind(b, time.Now())
	})
}

// notBrought is the problem of a service that does not come.
func notBrought(no *owner.Refusal) *api.Problem {
	status := no.Status
	if status < 400 || status > 599 {
		status = http.StatusServiceUnavailable
	}
	p := problems.New(status, no.Code, "%s", no.Why)
	if no.RetryAfter > 0 {
		p.Extra = map[string]any{"retry_after_seconds": no.RetryAfter.Seconds()}
	}
	return p
}

// frontOrders sends orders to a front, a line each.
func (s *server) frontOrders(w http.ResponseWriter, r *http.Request) {
	front := r.URL.Query().Get("front")
	if front == "" || len(front) > longestFront || strings.Trim(front, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		problems.Write(w, problems.New(http.StatusUnprocessableEntity, "invalid_request", "front is the name that a front makes up for itself: up to %d small letters and digits.", longestFront))
		return
	}
	control, begun := http.NewResponseController(w), false
	err := s.Desk.Services.FrontOrders(r.Context(), askerOf(r.Context()), front, func(o api.FrontOrder) error {
		line, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if !begun {
			w.Header().Set("Content-Type", "application/x-ndjson")
			begun = true
		}
		_ = control.SetWriteDeadline(time.Now().Add(orderPatience)) // a connection without deadlines cannot hang
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
		return control.Flush()
	})
	if p := (*api.Problem)(nil); !begun && err != nil && errors.As(problemOf(err), &p) {
		s.Refuse(w, r, p)
	}
}
