package httpapi

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/berth-gpu/berth/internal/desk"
)

// A log that breaks off does not end as a whole one does.
func TestALogThatBreaksOffBreaksTheConnection(t *testing.T) {
	d := open(t, "1")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.server.log(w, r, func(_ desk.Caller, _ desk.LogQuery, out *flowing) error {
			out.begin(0)
			_, _ = out.Write([]byte("the first line\n"))
			return errors.New("the disk has failed")
		})
	}))
	defer server.Close()
	answer, err := http.Get(server.URL)
	if err != nil {
		return // it broke before the first line came
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err == nil {
		t.Errorf("it ended with %q, as a whole one", text)
	}
}
