package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/batch"
)

// The daemon hears of a batch at once, then every second, and at the end why it
// failed. A batch that was stopped has not failed.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDaemon(0)
		done := int64(0)
		r := reporter{daemon: d, id: "batch-1", command: strings.Repeat("x", 2000), standing: func() api.Batch { done++; return api.Batch{Done: done} }}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		r.follow(ctx)
		r.send(t.Context(), fmt.Errorf("run: %w", batch.ErrStopped))
		r.send(t.Context(), errors.New("the disk is full"))
		var said []string
		for _, b := range d.reports {
			said = append(said, fmt.Sprintf("%s %d %d %s", b.ID, b.Done, len([]rune(b.Command)), b.Error))
		}
		want := "batch-1 1 1001 |batch-1 2 1001 |batch-1 3 1001 |batch-1 4 1001 |batch-1 5 1001 the disk is full"
		if got := strings.Join(said, "|"); got != want {
			t.Errorf("reported %s\nwant %s", got, want)
		}
	})
}
