package httpapi

import (
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/desk"
)

func registerBackup(s *server) {
	op := on("POST /api/backup", "daemon", "backup", "A copy of the state of the daemon",
		"The answer is a gzipped tar file, as berth restore reads it: what the daemon has written down, as it is at one moment. Only root and the user of the daemon get it, on the Unix socket and without a token.",
		http.StatusConflict, http.StatusUnprocessableEntity)
	op.Parameters = []*huma.Param{
		{Name: "secrets", In: "query", Description: "Also copy the environments of jobs, the hashes of tokens and sessions, hooks, and the variables of services.", Schema: &huma.Schema{Type: huma.TypeBoolean}},
		{Name: "past", In: "query", Description: "false: leave out what was measured.", Schema: &huma.Schema{Type: huma.TypeBoolean}},
	}
	s.raw(op, "application/gzip", s.backup)
}

// backup answers with an archive. If it cannot be completed, the connection breaks, so that
// nobody takes a part for the whole.
func (s *server) backup(w http.ResponseWriter, r *http.Request) {
	is := func(name, value string) bool { return strings.EqualFold(r.URL.Query().Get(name), value) }
	begun := false
	err := s.Desk.BackUp(r.Context(), askerOf(r.Context()), desk.BackupQuery{Secrets: is("secrets", "true"), NoPast: is("past", "false")}, func() {
		begun = true
		w.Header().Set("Content-Type", "application/gzip")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
	}, w)
	p := (*api.Problem)(nil)
	switch {
	case err == nil:
	case begun:
		s.Log.Error("the backup broke off", "error", err)
		panic(http.ErrAbortHandler)
	case errors.As(problemOf(err), &p):
		s.Refuse(w, r, p)
	}
}
