package sim

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// waves returns the script of a device without a script: idle, with some light work now
// and then, so that a first look shows some activity. Every device has its own rhythm,
// always the same one. The load stays low enough for the best state, and no process takes
// memory.
func waves(index int) script {
	shift := time.Duration(index%8) * time.Second
	share := float64(index%4) * 0.03
	wave := func(at, lasts, every time.Duration, load float64) *entry {
		return &entry{at: at, lasts: lasts, every: every, ramp: lasts / 4, load: gpu.Some(load)}
	}
	return script{
		wave(5*time.Second+4*shift, 40*time.Second, 97*time.Second+3*shift, 0.18+share),
		wave(35*time.Second+7*shift, 20*time.Second, 151*time.Second+5*shift, 0.35-share),
	}
}
