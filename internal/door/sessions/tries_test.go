package sessions

import (
	"log/slog"
	"strconv"
	"testing"
	"time"
)

// Those who guess delay their own tries alone, however many they are.
func TestOthersWhoGuessTakeNobodysTries(t *testing.T) {
	tries := NewTries(slog.New(slog.DiscardHandler), func(string) {})
	now := time.Now()
	for host := range mostHeldOfAll / MostHeld {
		for range MostHeld {
			if who, _ := tries.Fail("host "+strconv.Itoa(host), TokenUnknown, now); who == nil {
				t.Fatal("a caller has fewer tries than they may")
			}
		}
	}
	if !tries.Crowded("host 0") || tries.Crowded("ada") {
		t.Error("a caller who guesses has another try, or one who does not has none")
	}
	who, _ := tries.Fail("ada", TokenUnknown, now)
	if who == nil || !tries.Crowded("ada") {
		t.Error("while many guess, a caller has not exactly one try at a time")
	}
	tries.LetGo(who)
	if tries.Crowded("ada") {
		t.Error("after it, there is none")
	}
}
