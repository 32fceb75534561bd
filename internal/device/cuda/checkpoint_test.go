package cuda_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/device/cuda"
)

// Without a driver, moving memory is an error and no crash.
func TestCheckpointWithoutALibrary(t *testing.T) {
	if err := cuda.LoadCheckpoint("libberth-does-not-exist.so.1"); !errors.Is(err, cuda.ErrNoLibrary) {
		t.Errorf("%v", err)
	}
	if err := cuda.LoadCheckpoint("libc.so.6"); !errors.Is(err, cuda.ErrNoLibrary) {
		t.Errorf("with another library: %v", err)
	}
	for name, err := range map[string]error{
		"lock": cuda.Lock(1, time.Second), "checkpoint": cuda.Checkpoint(1), "restore": cuda.Restore(1), "unlock": cuda.Unlock(1),
	} {
		if refused := (*cuda.Error)(nil); !errors.As(err, &refused) || refused.Uninitialized() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if state, err := cuda.StateOf(1); err == nil {
		t.Errorf("the state is %v", state)
	}
}
