package plugin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
)

type anybody struct {
	who api.Whoami
	err error
}

func (a anybody) Whoami(context.Context) (api.Whoami, error) { return a.who, a.err }

// Pods get the daemon's socket only where a user id opens nothing there.
func TestClosedSocket(t *testing.T) {
	for _, c := range []struct {
		name   string
		socket string
		asks   Anybody
		code   string
		says   string
	}{
		{"turned away", "/run/berth/berth.sock", anybody{err: &api.Problem{Status: http.StatusUnauthorized, Code: "unauthorized"}}, "", ""},
		{"forbidden", "/run/berth/berth.sock", anybody{err: &api.Problem{Status: http.StatusForbidden, Code: "not_allowed"}}, "", ""},
		{"served", "/run/berth/berth.sock", anybody{who: api.Whoami{User: "root", Role: "viewer"}}, "open_socket", "container_callers"},
		{"no answer", "/run/berth/berth.sock", anybody{err: errors.New("no daemon")}, "error", "no daemon"},
		{"broken", "/run/berth/berth.sock", anybody{err: &api.Problem{Status: http.StatusInternalServerError}}, "error", "ask the daemon"},
		{"over TCP", "", nil, "no_socket", "Leave socket out"},
	} {
		d := &Driver{o: Options{Socket: c.socket, Anybody: c.asks}}
		err := d.closedSocket(t.Context())
		if c.code == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil || codeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%s)", c.name, err, codeOf(err))
		}
	}
}
