package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/history/hours"
)

// Sums go on from those of the daemon before. They begin anew if one of an older berth ran
// since, which knows nothing of the file: it has counted what was held meanwhile.
func TestSumsGoOnFromTheDaemonBefore(t *testing.T) {
	const sums = `{"version":1,"at":%q,"users":{},"services":{"":{"leases":60,"waiting":0,"leased":6000,"measured":0,"used":0}}}`
	for name, c := range map[string]struct {
		energy string // the file of what it used; empty for none
		want   hours.Sum
	}{
		"this berth":  {`{"version":1,"devices":{},"leases":{},"accounts":[],"users":{}}`, hours.Sum{Leases: 60, Leased: 6000}},
		"no file":     {"", hours.Sum{Leases: 60, Leased: 6000}},
		"berth 0.1.0": {`{"version":1,"devices":{},"leases":{},"accounts":[]}`, hours.Sum{}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, "sim:1")
			state := p.flags["daemon.state_dir"]
			if err := os.MkdirAll(state, 0o700); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"hours.json": fmt.Sprintf(sums, time.Now().Format(time.RFC3339)), "energy.json": c.energy} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(state, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d := p.open(t, t.Context())
			if got := d.hours.Before(true, ""); got != c.want {
				t.Errorf("the sums go on from %+v, want %+v", got, c.want)
			}
		})
	}
}
