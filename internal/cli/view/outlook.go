package view

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// ahead says in a few words that the temperature of a device passes a threshold, or
// that a forecast slows work on it down. It returns "" if neither is so.
func ahead(d api.Status) string {
	text := ""
	if next, passes := nextThreshold(d.Outlook); passes {
		text = fmt.Sprintf("settles at %.0f °C, passes %s in %s", float64(d.Outlook.Settles), next.Threshold, words.Duration(passing(next)))
	}
	if d.Cause != "forecast" {
		return text
	}
	if text == "" {
		text = "was about to get too hot"
	}
	return fmt.Sprintf("%s: work at %.0f %% of full speed", text, d.Multiplier*100)
}

// nextThreshold returns the first threshold that the temperature of a device will pass.
// It returns false if there is none.
func nextThreshold(o *api.Outlook) (next api.ThresholdForecast, ok bool) {
	if o == nil {
		return next, false
	}
	for _, t := range o.Thresholds {
		if in, passes := t.Seconds.Get(); passes && in > 0 {
			return t, true
		}
	}
	return next, false
}

// passing returns the time until a threshold is passed.
func passing(t api.ThresholdForecast) time.Duration {
	return time.Duration(t.Seconds.Or(0) * float64(time.Second))
}

// outlook describes the forecast of a device's temperature, for the page about the
// device.
func outlook(o *api.Outlook) string {
	if o == nil {
		return ""
	}
	text := fmt.Sprintf("settles at %.0f °C (%.0f to %.0f) at %.0f W", float64(o.Settles), float64(o.Low), float64(o.High), float64(o.Power))
	if next, passes := nextThreshold(o); passes {
		return Join(text, fmt.Sprintf("passes %s %.0f °C in %s", term.Clean(next.Threshold), float64(next.Limit), words.Duration(passing(next))))
	}
	return text
}
