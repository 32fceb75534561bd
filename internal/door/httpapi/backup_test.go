package httpapi

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
)

// A backup that breaks off never looks like a whole one: the connection breaks.
func TestABackupBreaksOff(t *testing.T) {
	d := open(t, "1")
	var asked desk.BackupQuery
	broken := error(nil)
	d.desk.Backup = func(to io.Writer, q desk.BackupQuery) error {
		asked = q
		_, err := io.WriteString(to, strings.Repeat("archive", 10_000))
		return errors.Join(err, broken)
	}
	d.remake()
	root := access.Actor{User: "root", UID: os.Geteuid(), Door: access.Socket, Role: access.Admin}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.server.ServeHTTP(w, r.WithContext(doorkeeper.With(r.Context(), doorkeeper.As(doorkeeper.Identity{Actor: root}))))
	}))
	defer s.Close()
	ask := func() (int, error) {
		resp, err := http.Post(s.URL+"/api/backup?secrets=true&past=false", "", nil)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return len(text), err
	}
	if n, err := ask(); n != 70_000 || err != nil || asked != (desk.BackupQuery{Secrets: true, NoPast: true}) {
		t.Errorf("%d bytes, %v, %+v", n, err, asked)
	}
	broken = errors.New("the disk is broken")
	if n, err := ask(); err == nil {
		t.Errorf("%d bytes look like a whole backup", n)
	}
}
