package programs

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// A pod that nobody uses succeeds, and ends its Job; one that is ended fails, and the Job
// makes another one.
func TestAwaitRunners(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "runner")
	if err := AwaitRunners(t.Context(), lock, 20*time.Millisecond); err != nil {
		t.Errorf("nobody came: %v", err)
	}
	terminated := errors.New("terminated")
	ctx, end := context.WithCancelCause(t.Context())
	end(terminated)
	if err := AwaitRunners(ctx, lock, time.Hour); !errors.Is(err, terminated) {
		t.Errorf("it was ended: %v", err)
	}
}
