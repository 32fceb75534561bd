package thermal

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// ladder goes down at once and up slowly: it stays in the state of the worst reading
// until all readings of a window were better.
type ladder struct {
	level  gpu.State // empty before the first reading
	better time.Time // when the window opened; zero if none is open
	worst  gpu.State // worst reading in the window
	last   time.Time // newest time seen
}

// pass moves time on to now, never back.
func (l *ladder) pass(now time.Time) time.Time {
	if now.After(l.last) {
		l.last = now
	}
	return l.last
}

// follow adds a reading. hold returns how long readings must have been better than a
// state before the ladder leaves it. With steps, it goes from THROTTLED to OPTIMAL by way
// of NORMAL.
func (l *ladder) follow(now time.Time, raw gpu.State, steps bool, hold func(gpu.State) time.Duration) {
	if l.level == "" || !l.level.Worse(raw) {
		l.level, l.better = raw, time.Time{}
		return
	}
	if l.better.IsZero() {
		l.better, l.worst = now, raw
	}
	if raw.Worse(l.worst) {
		l.worst = raw
	}
	if now.Sub(l.better) < hold(l.level) {
		return
	}
	if steps && l.level == gpu.Throttled && l.worst == gpu.Optimal {
		l.level, l.better = gpu.Normal, now // the reading is OPTIMAL, too
		return
	}
	l.level, l.better = l.worst, time.Time{}
	if l.level.Worse(raw) {
		l.better, l.worst = now, raw
	}
}
