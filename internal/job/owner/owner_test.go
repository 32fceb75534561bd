package owner

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/job/service"
)

// Two services that do not fit together answer in turn.
func TestTwoInTurn(t *testing.T) {
	inWorld(t, []service.Spec{spec("a"), spec("b")}, func(t *testing.T, w *world) {
		for _, name := range []string{"a", "b", "a"} {
			if err := <-w.ask(t.Context(), name, 5*time.Second); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			w.is(name, "ready")
			time.Sleep(2 * time.Minute)
		}
		if w.came != 3 {
			t.Errorf("%d came; want 3", w.came)
		}
	})
}
