package httpapi

import (
	"bytes"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/history/report"
	reporting "github.com/berth-gpu/berth/internal/history/report/collect"
	reportpage "github.com/berth-gpu/berth/internal/history/report/page"
)

func registerReport(s *server) {
	op := on("GET /api/report", "history", "report", "How GPUs were used over a time, by whom, and what to do better, as a page",
		"The page that berth report --html writes, with what the caller may see. It has no scripts and loads nothing. Only the page of this daemon may show it in a frame.",
		http.StatusUnprocessableEntity)
	longest := 64
	for _, p := range [][2]string{
		{"since", "Where the report begins: a time as in RFC 3339, or how long ago, as in 90s, 5m or 168h. Default: seven days before its end."},
		{"until", "Where the report ends, likewise. Default: now."},
	} {
		op.Parameters = append(op.Parameters, &huma.Param{Name: p[0], In: "query", Description: p[1], Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &longest}})
	}
	s.raw(op, "text/html", s.report)
}

// inside serves a request that is part of another one, which has its place already.
func (s *server) inside(w http.ResponseWriter, r *http.Request) {
	defer s.recover(w, r) // Through serves in a goroutine of its own
	s.mux.ServeHTTP(w, r)
}

// report answers with a report as a page. It asks this API for what is in it, as the
// caller, so that the page shows nothing that the caller may not see.
func (s *server) report(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Frame-Options", "SAMEORIGIN") // for browsers that do not know frame-ancestors; a refusal is shown in the frame, too
	period, refused := periodOf(r.URL.Query().Get("since"), r.URL.Query().Get("until"), time.Now())
	if refused != nil {
		problems.Write(w, refused)
		return
	}
	asked, err := client.New(client.Options{Transport: client.Through(http.HandlerFunc(s.inside))})
	if err != nil {
		panic(err) // cannot happen: there is one transport
	}
	all, err := reporting.Report(r.Context(), asked, period, time.Now())
	var text bytes.Buffer
	if err == nil {
		err = reportpage.HTML(&text, &all)
	}
	switch p := (*api.Problem)(nil); {
	case err == nil:
	case errors.As(err, &p):
		problems.Write(w, p)
		return
	case r.Context().Err() != nil: // nobody reads the answer
		problems.Write(w, noPlace(r.Context()))
		return
	default:
		problems.Write(w, problems.New(http.StatusServiceUnavailable, "no_report", "The report could not be made: %v. Ask again, for a shorter time.", err))
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(text.Bytes())
}

// periodOf reads the period of a report.
func periodOf(since, until string, now time.Time) (*report.Period, *api.Problem) {
	wrong := func(field, detail string) *api.Problem {
		p := problems.New(http.StatusUnprocessableEntity, "invalid_request", "There is no report of this time.")
		p.Fields = []api.FieldProblem{{Field: field, Detail: detail}}
		return p
	}
	end, err := moment(until, now)
	if err != nil {
		return nil, wrong("until", "is neither a time such as 2026-11-17T12:00:00Z nor how long ago it was, such as 24h")
	}
	if end.IsZero() || end.After(now) {
		end = now
	}
	begin, err := moment(since, now)
	if err != nil {
		return nil, wrong("since", "is neither a time such as 2026-11-17T12:00:00Z nor how long ago it was, such as 168h")
	}
	if begin.IsZero() {
		begin = end.Add(-reporting.Usual)
	}
	switch length := end.Sub(begin); {
	case length < reporting.Least:
		return nil, wrong("since", "must be at least a minute before the end")
	case length > reporting.Longest:
		return nil, wrong("since", "must be at most 1098 days before the end")
	}
	return &report.Period{From: begin.In(now.Location()), Until: end.In(now.Location())}, nil // the page shows them in the time zone of the daemon
}
