package daemon

import (
	"errors"
	"log/slog"
	"os/user"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
)

// What the settings take from a user holds after a restart, too, while the user database does
// not answer, and not for somebody else who has got the id since.
func TestRestrictionsHoldWhileTheDatabaseIsSilent(t *testing.T) {
	c := settingsOf(t, "users: {eve: {role: viewer}}").Config
	path := filepath.Join(t.TempDir(), "accounts.json")
	there := func(string) (int, []int, error) { return 1004, nil, nil }
	silent := func(string) (int, []int, error) { return 0, nil, errors.New("the server does not answer") }
	gone := func(name string) (int, []int, error) { return 0, nil, user.UnknownUserError(name) }
	synctest.Test(t, func(t *testing.T) {
		for i, step := range []struct {
			database func(string) (int, []int, error)
			want     access.Role
		}{{silent, access.User}, {there, access.Viewer}, {silent, access.Viewer}, {gone, access.User}, {silent, access.User}} {
			d := &Daemon{log: slog.New(slog.DiscardHandler)}
			d.numbers.Limit = time.Second
			d.numbers.Ask(&users.Database{Account: step.database})
			d.recall(path)
			d.govern(c, false)
			d.govern(c, true)
			if err := d.keep(); err != nil {
				t.Fatal(err)
			}
			peer := access.Caller{Door: access.Socket, UID: access.KnownUID(1004), Place: access.Here}
			if got := d.rules.Load().Actor(&peer).Role; got != step.want {
				t.Errorf("start %d: eve is %v, want %v", i, got, step.want)
			}
		}
	})
}
