package daemon

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
)

// Of two entries for one user, what both allow holds, whichever is looked at first.
func TestTwoEntriesForOneUser(t *testing.T) {
	c := config.Default()
	c.Users = map[string]config.User{
		"root": {Role: "operator", Limits: config.Limits{Leases: gpu.Some(9), Slots: gpu.Some(3), NamedLeases: "true"}},
		"0":    {Role: "viewer", Limits: config.Limits{Leases: gpu.Some(2), Calls: gpu.Some(5.0), NamedLeases: "false"}},
	}
	p := &people{}
	p.numbers.Limit = time.Minute
	for range 20 {
		if missing := p.govern(c, false); missing != nil {
			t.Skipf("the user database does not know %v", missing)
		}
		own := p.limits.Load().Users[0]
		if own.Name != "0 and users.root" || own.Leases != gpu.Some(2) || own.Slots != gpu.Some(3) || own.Calls != gpu.Some(5.0) || own.Memory.Known() || own.NamedLeases != "false" {
			t.Fatalf("the limits are %+v", own)
		}
		if role := p.rules.Load().Users[0].Role; role != access.Viewer {
			t.Fatalf("the role is %v", role)
		}
	}
	if n := p.limits.Load().Generation; n != 1 {
		t.Errorf("the limits have changed %d times", n)
	}
}
