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

// departed is a caller who has left.
type departed struct{ *httptest.ResponseRecorder }

func (departed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// An answer that cannot be sent is no mistake of the daemon: any user could cause it.
func TestACallerWhoIsGoneIsNoMistake(t *testing.T) {
	d := open(t, "1")
	for _, path := range []string{"/api/leases", "/api/gpu/status/all", "/api/gpu/metrics", "/api/leases/none"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		d.ServeHTTP(departed{httptest.NewRecorder()}, r)
	}
	if told := d.Faults.Text(); told != "" {
		t.Error(told)
	}
}
