package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/lease/audit"
)

func registerAudit(s *server) {
	serve(s, on("GET /api/audit", "daemon", "audit", "Acts of authority, and refusals",
		"Who changed what for others, through which door, what it was before and after, and who was refused. The entries are the lines of the audit log, "+
			"the oldest first. Without after, the answer has the newest entries; with after, those that follow it."), s.audit)
}

type auditQuery struct {
	Since string   `query:"since" maxLength:"64" doc:"Only entries after this: a time as in RFC 3339, or how long ago, as in 90s or 5m."`
	User  []string `query:"user" maxItems:"64" maxLength:"128" doc:"Only what these users did or were refused, and what was done to things of these users. May be repeated."`
	What  []string `query:"what" maxItems:"64" maxLength:"64" doc:"Only these verbs. May be repeated." example:"release"`
	Limit int      `query:"limit" default:"100" minimum:"1" maximum:"2000" doc:"Return at most this many entries."`
	After string   `query:"after" maxLength:"18" pattern:"^[0-9]{1,18}$" doc:"Only entries that follow the one with this number, the oldest first. 0: from the beginning."`
	Address
}

func (s *server) audit(_ context.Context, in *auditQuery) (*listed[api.AuditLog], error) {
	since, err := moment(in.Since, time.Now())
	if err != nil {
		return nil, err
	}
	if s.Audit == nil {
		return &listed[api.AuditLog]{Body: api.AuditLog{Entries: []api.AuditEntry{}}}, nil
	}
	after, _ := strconv.ParseUint(in.After, 10, 64) // the framework has checked it
	page, err := s.Audit.Page(audit.Query{Since: since, Users: in.User, Verbs: in.What, Limit: in.Limit, After: after, Oldest: in.After != ""})
	if err != nil {
		return nil, problems.New(http.StatusServiceUnavailable, "audit_unreadable", "The audit log cannot be read: %v. Look at the folder audit in the state folder of the daemon.", err)
	}
	out := &listed[api.AuditLog]{Body: page}
	if page.Next != 0 {
		out.Link = in.next(strconv.FormatUint(page.Next, 10))
	}
	return out, nil
}

// Refuse answers a request with a problem, and records the refusal.
func (s *server) Refuse(w http.ResponseWriter, r *http.Request, p *api.Problem) {
	s.Refused(r, p)
	problems.Write(w, p)
}

// Refused records the refusal of a request.
func (s *server) Refused(r *http.Request, p *api.Problem) {
	_, pattern := s.route(r)
	s.refused(r.Context(), r.Method, r.URL.Path, pattern, p)
}

// noteRefusal records the refusals of operations. It is a response transformer, because
// every refusal of an operation passes there.
func (s *server) noteRefusal(ctx huma.Context, _ string, v any) (any, error) {
	if p, is := v.(*api.Problem); is {
		at := ctx.URL()
		s.refused(ctx.Context(), ctx.Method(), at.Path, ctx.Method()+" "+ctx.Operation().Path, p)
	}
	return v, nil
}

// refused writes a refusal to the audit log if it depends on who asks. Other refusals
// do not refuse a person.
func (s *server) refused(ctx context.Context, method, path, pattern string, p *api.Problem) {
	if s.Audit == nil || p.Status != http.StatusForbidden && p.Status != http.StatusUnauthorized {
		return
	}
	s.Audit.Refuse(api.AuditEntry{
		Who: audit.Who(identityOf(ctx).Actor), What: verbs[pattern].String(),
		Object: api.AuditObject{Kind: "route", ID: method + " " + path}, Why: p.Code + ": " + p.Detail,
	})
}
