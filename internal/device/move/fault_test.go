package move_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/device/move"
)

func TestParseFaults(t *testing.T) {
	got, err := move.ParseFaults("lock:before:kill-daemon,checkpoint:during:kill-helper:2,state:after:hang")
	want := []move.Fault{
		{Step: move.Lock, When: move.Before, What: move.KillDaemon},
		{Step: move.Checkpoint, When: move.During, What: move.KillHelper, Nth: 2},
		{Step: move.Ask, When: move.After, What: move.Hang},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := move.ParseFaults(""); err != nil || len(got) > 0 {
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
		if got, err := move.ParseFaults(text); err == nil || !strings.Contains(err.Error(), want) || got != nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
