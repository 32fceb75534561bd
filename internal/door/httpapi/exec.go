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
	op := on("POST /api/exec", "leases", "exec", "For berth exec: lease for the process at the other end of the socket, without waiting",
		"The body says what was typed, and the answer what to change in the environment. Both are lists of texts, each with a letter before it and a zero byte after it. "+
			"In the body, f is a flag before the --, c a word of the command, e a variable of the environment and t the version of PyTorch. "+
			"In the answer, m is a line to print, s a variable to set, as NAME=VALUE, and u the name of one to remove; a dot ends it. "+
			"The daemon refuses everything that is not plain with 409 and changes nothing. Use POST /api/leases for that, and for every other program.", http.StatusConflict)
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {}}}
	s.raw(op, "application/octet-stream", s.exec)
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
