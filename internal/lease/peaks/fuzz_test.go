package peaks

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Whatever is in the file, a daemon starts with it, learns on, and never offers
// an amount of memory that cannot be.
func FuzzOpen(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"entries":[{"user":"u","name":"n","runs":3,"last":"2026-01-02T03:04:05Z","last_runs":[{"peak_mb":100,"asked_mb":200,"seconds":1.5},{"peak_mb":50,"seconds":2,"short":true}],"offered_mb":300,"ceiling_mb":400}]}`,
		`{"version":1,"entries":[null,{"user":"u","name":"n","last_runs":[{"peak_mb":-9223372036854775808,"seconds":-1e308},{"peak_mb":9223372036854775807}]}]}`,
		`{"version":2}`, `null`, `{}`, `[]`, ``, `{"version":1,"entries":[{},{}]}`,
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "history.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		p, damage := Open(path)
		if damage != nil { // the next one is to have room
			if err := os.Remove(damage.Aside); err != nil {
				t.Fatal(err)
			}
		}
		p.Add(Key{User: "u", Name: "n"}, Run{Peak: 10, Seconds: 1}, time.Unix(1, 0))
		for _, e := range p.All() {
			for _, need := range []int64{int64(e.Need(500)), int64(e.Known()), int64(e.Peak())} {
				if need < 0 || need > 1<<31 {
					t.Errorf("%+v needs %d MiB", e, need)
				}
			}
			if s := e.Seconds(); math.IsNaN(s) || s < 0 {
				t.Errorf("%+v takes %v s", e, s)
			}
		}
		if err := p.write(); err != nil {
			t.Fatal(err)
		}
		again, damage := Open(path)
		if damage != nil || len(again.All()) != len(p.All()) {
			t.Errorf("what it wrote is %d entries again, of %d: %v", len(again.All()), len(p.All()), damage)
		}
	})
}
