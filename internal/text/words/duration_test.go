package words

import (
	"testing"
	"time"
)

func TestDurationAndAge(t *testing.T) {
	for _, c := range []struct {
		d         time.Duration
		took, age string
	}{
		{-time.Second, "0.1 s", "0 s"},
		{0, "0.1 s", "0 s"},
		{time.Millisecond, "0.1 s", "0 s"},
		{501 * time.Millisecond, "0.5 s", "0 s"},
		{2001 * time.Millisecond, "2 s", "2 s"},
		{9960 * time.Millisecond, "10 s", "9 s"},
		{59900 * time.Millisecond, "60 s", "59 s"},
		{90 * time.Second, "90 s", "1 min"},
		{119 * time.Minute, "119 min", "1 h"},
		{150 * time.Minute, "2 h", "2 h"},
		{47 * time.Hour, "47 h", "47 h"},
		{71 * time.Hour, "3 days", "2 days"},
	} {
		if got := Duration(c.d); got != c.took {
			t.Errorf("Duration(%v) = %q, want %q", c.d, got, c.took)
		}
		if got := Age(c.d); got != c.age {
			t.Errorf("Age(%v) = %q, want %q", c.d, got, c.age)
		}
	}
}
