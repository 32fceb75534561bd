package quota

import (
	"testing"
	"time"
)

func TestSameUnit(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		a, b   time.Duration
		wa, wb string
	}{
		{5 * day, 2 * day, "5 d", "2 d"}, {5 * day, time.Hour, "120 h", "1 h"}, {2 * time.Minute, time.Minute, "2 min", "1 min"},
		{90 * time.Second, time.Minute, "90 s", "60 s"}, {49 * time.Hour, 2 * day, "49 h", "48 h"},
	} {
		if a, b := sameUnit(c.a, c.b); a != c.wa || b != c.wb {
			t.Errorf("%v and %v are %q and %q", c.a, c.b, a, b)
		}
	}
}
