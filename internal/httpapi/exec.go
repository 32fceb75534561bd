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

// exec serves a launch in one question and one answer. A launcher that is
// refused goes on to make a proper request.
func (s *server) exec(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
	question, plain := launch.ReadQuestion(text)
	if err != nil || !plain {
		question = launch.Question{} // which is refused
	}
	say, changes, err := s.Desk.Launch(r.Context(), askerOf(r.Context()), question)
	if err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(launch.Answer(say, changes))
}
