package desk

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
)

// Only root and the user of the daemon get a copy of its state, on the socket, without a
// token, and not before that is recorded.
func TestWhoMayBackUp(t *testing.T) {
	var recorded []api.AuditEntry
	refuse := error(nil)
	d := New(Parts{
		Backup: func(to io.Writer, q BackupQuery) error { _, err := io.WriteString(to, "archive"); return err },
		Record: func(e api.AuditEntry) error { recorded = append(recorded, e); return refuse },
	})
	try := func(by access.Actor) (string, error) {
		var b strings.Builder
		err := d.BackUp(t.Context(), Caller{Actor: by}, BackupQuery{Secrets: true}, func() {}, &b)
		return b.String(), err
	}
	self := os.Geteuid()
	for name, by := range map[string]access.Actor{
		"nobody":               {},
		"an operator":          {UID: self, Door: access.Socket, Role: access.Operator},
		"over TCP":             {UID: self, Door: access.TCP, Role: access.Admin},
		"a token":              {UID: self, Door: access.Socket, Role: access.Admin, Token: "ci"},
		"another admin":        {UID: self + 4711, Door: access.Socket, Role: access.Admin},
		"somebody who is none": {UID: access.NoUID, Door: access.Socket, Role: access.Admin},
	} {
		if got, err := try(by); got != "" || codeOf(err) != "not_allowed" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if len(recorded) > 0 {
		t.Errorf("%+v", recorded)
	}
	for _, uid := range []int{0, self} {
		if got, err := try(access.Actor{UID: uid, Door: access.Socket, Role: access.Admin}); got != "archive" || err != nil {
			t.Errorf("user %d: %q, %v", uid, got, err)
		}
	}
	if len(recorded) != 2 || recorded[0].What != "backup" || recorded[0].After["secrets"] != "true" {
		t.Errorf("%+v", recorded)
	}
	refuse = errors.New("the disk is full")
	if got, err := try(access.Actor{UID: 0, Door: access.Socket, Role: access.Admin}); got != "" || err == nil {
		t.Errorf("what could not be recorded was done: %q, %v", got, err)
	}
}
