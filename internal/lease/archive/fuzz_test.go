package archive

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Whatever is in the file, a daemon starts with it, remembers on, and reads back
// what it writes.
func FuzzOpen(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"leases":[{"id":"a","fence":7,"user":"u","uid":1000,"binding":"process","granted":"2026-01-02T03:04:05Z","ended":"2026-01-02T03:05:05Z","how":"release","parts":[{"gpu":"GPU-a","memory_mb":100,"slots":1}],"peak_mb":50}]}`,
		`{"version":1,"leases":[{},{"user":"u","ended":"0001-01-01T00:00:00Z"},{"uid":-1,"parts":null}]}`, `{"version":9}`, `null`, `{}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "past-leases.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		a, damage := Open(path)
		if damage != nil { // the next one is to have room
			if err := os.Remove(damage.Aside); err != nil {
				t.Fatal(err)
			}
		}
		a.Ended(&lease.Effect{Kind: lease.Released, Time: time.Unix(1, 0).UTC(), Before: &lease.Lease{ID: "b", Fence: 9, Parts: []lease.Part{{GPU: "GPU-a"}}}}, 5, gpu.Opt[gpu.Joules]{})
		if err := a.write(); err != nil {
			t.Fatal(err)
		}
		again, damage := Open(path)
		if damage != nil {
			t.Fatalf("what it wrote cannot be read: %v", damage)
		}
		byText := cmpopts.SortSlices(func(x, y Past) bool { return fmt.Sprint(x) < fmt.Sprint(y) })
		if diff := cmp.Diff(a.All(), again.All(), byText, cmp.AllowUnexported(gpu.Opt[gpu.Joules]{})); diff != "" {
			t.Errorf("(-written +read)\n%s", diff)
		}
	})
}
