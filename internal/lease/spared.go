package lease

import (
	"maps"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// Sparing adds to an event the processes of the lease that berth left alone, because it
// may not signal them on behalf of the actor, or because of the scope of the lease. Only
// the user and operators see which these are.
func Sparing(e gpu.Event, spared []string) gpu.Event {
	if len(spared) == 0 {
		return e
	}
	if e.Public == "" {
		e.Public = e.Text
	}
	e.Public += "; berth left processes alone that it may not signal here"
	e.Text += LeftAlone(spared)
	e.Data = maps.Clone(e.Data)
	e.Data["spared"] = spared
	return e
}

// LeftAlone names processes that berth left alone, to follow a sentence. It
// returns "" if there are none.
func LeftAlone(spared []string) string {
	if len(spared) == 0 {
		return ""
	}
	return "; berth left processes alone that it may not signal here: " + strings.Join(spared, ", ")
}
