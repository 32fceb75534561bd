package mover_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park/hugepages"
)

// With huge_pages: while_moving the kernel uses huge pages exactly while memory moves, and
// otherwise they are left as they are.
func TestHugePagesWhileMemoryMoves(t *testing.T) {
	for setting, want := range map[string]string{"while_moving": "always", "leave": "madvise"} {
		inWorld(t, 100*gib, func(t *testing.T, w *world) {
			kernel := filepath.Join(w.folder, "enabled")
			if err := os.WriteFile(kernel, []byte("always [madvise] never\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			w.pages, _ = hugepages.Open(kernel, filepath.Join(w.folder, hugepages.FileName), w.boot, slog.New(slog.DiscardHandler))
			w.settings.HugePages = setting
			w.restart()
			seen := map[move.Step]string{}
			w.plan(func(step move.Step) string {
				seen[step], _ = hugepages.Read(kernel)
				return ""
			})
			l := w.grant("a", 60*gib)
			if err := w.now.Park(t.Context(), l.Key(), l.Fence, byU, "", false); err != nil {
				t.Fatal(err)
			}
			if now, _ := hugepages.Read(kernel); now != "madvise" {
				t.Errorf("%s: after parking it is %s", setting, now)
			}
			if err := w.now.Resume(t.Context(), l.Key(), l.Fence, byU, "", atOnce); err != nil {
				t.Fatal(err)
			}
			if now, _ := hugepages.Read(kernel); now != "madvise" || seen[move.Checkpoint] != want || seen[move.Restore] != want || seen[move.Lock] != "madvise" || seen[move.Unlock] != "madvise" {
				t.Errorf("%s: it is %s, and was %v", setting, now, seen)
			}
		})
	}
}
