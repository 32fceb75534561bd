package park_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/device/park"
)

func TestParseFaults(t *testing.T) {
	got, err := park.ParseFaults("lock:before:kill-daemon,checkpoint:during:kill-helper:2,state:after:hang")
	want := []park.Fault{
		{Step: park.Lock, When: park.Before, What: park.KillDaemon},
		{Step: park.Checkpoint, When: park.During, What: park.KillHelper, Nth: 2},
		{Step: park.Ask, When: park.After, What: park.Hang},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := park.ParseFaults(""); err != nil || len(got) > 0 {
		t.Errorf("without text: %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"lock":                        `"lock" is no fault: write STEP:WHEN:WHAT`,
		"lock:before":                 "is no fault",
		"lock:before:error:1:2":       "is no fault",
		"dance:before:error":          `"dance" is no part of a fault: write state, lock, checkpoint, restore, unlock`,
		"lock:now:error":              `"now" is no part of a fault`,
		"lock:before:fire":            `"fire" is no part of a fault`,
		"lock:before:error:0":         "N must be 1 or more",
		"lock:before:error:x":         "N must be 1 or more",
		"lock:during:error":           "cannot happen",
		"lock:before:error,":          `"" is no fault`,
		"lock:before:\x1b[31m":        "is no part of a fault",
		"lock : before : kill-daemon": `"lock " is no part`,
	} {
		if got, err := park.ParseFaults(text); err == nil || !strings.Contains(err.Error(), want) || got != nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
