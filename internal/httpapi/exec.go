package httpapi

import (
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/internal/launch"
)

// maxQuestion is the most that a launcher sends.
const maxQuestion = 64 << 10

func (s *server) registerExec() {
	s.raw(&huma.Operation{
		OperationID: "exec", Method: http.MethodPost, Path: "/api/exec", Tags: []string{"leases"},
		Summary: "For berth exec: a lease for the process at the other end of the socket, if it can be had at once",
		Description: "The body is what was typed, and the answer what to change in the environment; internal/launch/plain.go describes both. " +
			"Whatever is not plain is refused with 409, and nothing has happened then: POST /api/leases is for that, and for every other program.",
	}, "application/octet-stream", s.exec)
}

// exec serves a launch in one question and one answer. The launcher that is
// refused goes on to make a proper request, so it is told no more than that.
func (s *server) exec(w http.ResponseWriter, r *http.Request) {
	answer, ok := s.launch(w, r)
	if !ok {
		writeProblem(w, problem(http.StatusConflict, "not_plain", "This launch is not plain. Ask for the lease with POST /api/leases."))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(answer)
}

func (s *server) launch(w http.ResponseWriter, r *http.Request) (answer []byte, ok bool) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
	if err != nil {
		return nil, false
	}
	question, ok := launch.ReadQuestion(text)
	if !ok {
		return nil, false
	}
	say, changes, err := s.Desk.Launch(r.Context(), askerOf(r.Context()), question)
	if err != nil {
		return nil, false
	}
	return launch.Answer(say, changes), true
}
