package monitor_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// Whatever is in the file, it is refused with a reason, or the devices in it can
// fail, answer and come back.
func FuzzStandings(f *testing.F) {
	for _, seed := range []string{
		`{"GPU-a":{"phase":"quarantine","since":"2026-01-02T03:04:05Z","until":"2026-01-02T03:05:05Z","why":"Xid 79","relapses":2,"fault":"2026-01-02T03:04:05Z","withheld":1}}`,
		`{"GPU-a":{"phase":"probation","relapses":-3,"withheld":-1,"fault":"2026-01-02T03:04:05Z"}}`, `{"GPU-a":{"phase":"quarantine","relapses":100}}`,
		`{"GPU-a":{"phase":"else"}}`, `null`, `{}`, `[]`, ``, `{"":null}`,
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "health.json")
	now := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, damage := monitor.OpenStandings(path)
		if damage != nil {
			if err := os.Remove(damage.Aside); err != nil {
				t.Fatal(err)
			}
			return
		}
		rules := health.DefaultRules()
		for uuid, standing := range s.All() {
			for _, fail := range []bool{true, false} {
				after := standing
				if fail {
					after.Fail(rules, now, "a fault")
					if after.Phase != health.Quarantined || !after.Until.After(now) {
						t.Errorf("%s is %+v after a fault", uuid, after)
					}
				}
				after.Return(rules, now)
				for at := now; at.Before(now.Add(48 * time.Hour)); at = at.Add(time.Hour) {
					after.Answer(rules, at, false)
				}
				if fail && after.Phase != health.Trusted || after.Withheld < 0 {
					t.Errorf("%s is %+v two days later", uuid, after)
				}
				s.Changed(uuid, after)
			}
		}
		s.Changed("GPU-new", health.Standing{})
	})
}
