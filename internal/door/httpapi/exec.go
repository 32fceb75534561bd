package httpapi

import (
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/internal/process/launch"
)

// maxQuestion is the largest body that a launcher may send, in bytes.
const maxQuestion = 64 << 10

func registerExec(s *server) {
	s.raw(&huma.Operation{
		OperationID: "exec", Method: http.MethodPost, Path: "/api/exec", Tags: []string{"leases"},
		Summary: "For berth exec: lease for the process at the other end of the socket, without waiting",
		Description: "The body is the command line, and the answer says what to change in the environment; internal/process/launch/plain.go describes both. " +
			"The daemon refuses everything that is not plain with 409 and changes nothing. Use POST /api/leases for that, and for every other program.",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {}}},
		Errors:      []int{http.StatusConflict},
	}, "application/octet-stream", s.exec)
}

// exec answers a launch in one request. A launcher that is refused makes an ordinary
// request instead.
func (s *server) exec(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
	question, plain := launch.ReadQuestion(text)
	if err != nil || !plain {
		question = launch.Question{} // Launch refuses it
	}
	say, changes, err := s.Desk.Launch(r.Context(), askerOf(r.Context()), question)
	if err != nil {
		s.Refuse(w, r, problemOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(launch.Answer(say, changes))
}
