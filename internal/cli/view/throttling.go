package view

import (
	"fmt"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/words"
)

// throttling says what berth does about a device that should run slower, or returns ""
// if it does nothing.
func throttling(t *api.Throttling) string {
	if t == nil {
		return ""
	}
	var power, paced, fan, denied string
	if original, held := t.Original.Get(); held {
		power = fmt.Sprintf("the power limit is %.0f W instead of %.0f W, after %s", t.PowerLimit.Or(0), original, words.Count(t.PowerSteps, "step"))
	}
	if share, held := t.Share.Get(); held {
		paced = fmt.Sprintf("%s held to %.0f %% of full speed", words.Count(t.PacedLeases, "lease"), 100*share)
	}
	if speed, held := t.Fan.Get(); held {
		fan = fmt.Sprintf("fans at %.0f %%", speed)
	}
	if t.Denied != "" {
		denied = "nothing: " + t.Denied
	}
	return Join(power, paced, fan, denied)
}
