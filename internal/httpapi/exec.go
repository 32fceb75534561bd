package httpapi

import (
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/launch"
	"github.com/berth-gpu/berth/internal/lease"
)

// maxQuestion is what a launcher sends at most.
const maxQuestion = 64 << 10

func (s *server) registerExec() {
	s.raw(&huma.Operation{
		OperationID: "exec", Method: http.MethodPost, Path: "/api/exec", Tags: []string{"leases"},
		Summary: "For berth exec: a lease for the process at the other end of the socket, if it can be had at once",
		Description: "The body is what was typed, and the answer what to change in the environment; internal/launch/plain.go describes both. " +
			"Whatever is not plain is refused with 409, and nothing has happened then: POST /api/leases is for that, and for every other program.",
	}, "application/octet-stream", s.exec)
}

// exec serves a launch in one question and one answer. It grants at once or not
// at all, and a refusal counts as no request: the launcher goes on to make a
// proper one.
func (s *server) exec(w http.ResponseWriter, r *http.Request) {
	changes, ok := s.launchPlain(w, r)
	if !ok {
		writeProblem(w, problem(http.StatusConflict, "not_plain", "This launch is not plain. Ask for the lease with POST /api/leases."))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(changes)
}

func (s *server) launchPlain(w http.ResponseWriter, r *http.Request) (changes []byte, ok bool) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
	if err != nil {
		return nil, false
	}
	question, ok := launch.ReadQuestion(text)
	if !ok {
		return nil, false
	}
	wish, plain := launch.ParsePlain(question.Flags)
	if !plain || wish.Compute > 0 || wish.Finish(question.Command) != nil || callerOf(r.Context()).PID == 0 {
		return nil, false
	}
	request, err := s.request(r.Context(), wish.LeaseRequest)
	if err != nil || request.EnforcedBy == launch.MPS {
		return nil, false
	}
	if !s.Ledger.Fits(request) {
		return nil, false
	}
	request.Wait = gpu.Some(time.Duration(0))
	granted, err := outOfTurn(r.Context(), func() (*lease.Lease, error) { return s.Ledger.Acquire(r.Context(), request) })
	if err != nil {
		return nil, false
	}
	s.took(wish.LeaseRequest, request)
	l, err := s.outfit(r.Context(), granted)
	if err != nil {
		return nil, false
	}
	environ, _ := launch.Environment(l, l.Launch.Devices, launch.Ladder{
		Context: l.Launch.Context, Torch: question.Torch, Socket: s.Socket,
	}, question.Environ)
	return launch.Answer(l.Note, launch.Changes(question.Environ, environ)), true
}
