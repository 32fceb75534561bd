package upkeep

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/desk/doctor"
	"github.com/berth-gpu/berth/internal/text/term"
)

var update = flag.Bool("update", false, "rewrite what testdata expects")

// What the doctor found, and what a repair did, look as testdata says, on a wide screen
// and on a narrow one with colours.
func TestViews(t *testing.T) {
	for name, view := range map[string]func(to term.Screen) []string{
		"findings": func(to term.Screen) []string {
			return findings([]doctor.Finding{
				{Topic: "system", Grade: "ok", Text: "Linux 6.1 on amd64"},
				{Topic: "nvml", Grade: "note", Text: "libnvidia-ml.so.1 was not found", Next: "install the driver of the GPU, or try berth without one: berth serve --devices sim:4"},
				{Topic: "journal", Grade: "broken", Text: "odd\x1b[2J: the record\nis damaged", Next: "berth journal repair"},
			}, to)
		},
		"repair": func(to term.Screen) []string {
			did := doctor.Repair{
				Repaired: doctor.Repaired{Folder: "/var/lib/berth/journal", Damage: "wal-1 at byte 12, record 3: the checksum is wrong", Kept: 2, Dropped: 7, Aside: []string{"wal-1", "wal-2"}},
				Leases:   []string{"a", "b"},
			}
			return append(repaired(did, to), repaired(doctor.Repair{Repaired: doctor.Repaired{Kept: 1}}, to)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
			var b strings.Builder
			for _, to := range []term.Screen{{Width: 100, Now: now}, {Width: 60, Now: now, Painter: true}} {
				b.WriteString(strings.ReplaceAll(strings.Join(view(to), "\n"), "\x1b", "␛") + "\n\n")
			}
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("%s (run with -update if it is right now, -want +got):\n%s", path, diff)
			}
		})
	}
}
