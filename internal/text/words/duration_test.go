package words

import (
	"strings"
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

// Whoever writes a length of time as Slurm does, or with the words of people, is told how
// berth writes it, and what is told is read.
func TestLengthsOfSlurm(t *testing.T) {
	for text, want := range map[string]string{
		"4:00:00": "write 4h", "04:30:00": "write 4h30m", "0:00:30": "write 30s", "1-12:00": "write 1d12h", "1-12": "write 1d12h", "2-00:00:00": "write 2d", "0-01:05:09": "write 1h5m9s",
		"90:00": "write 90m (minutes, as for Slurm) or 90h (hours)", "4:30": "write 4m30s (minutes, as for Slurm) or 4h30m (hours)",
		"UNLIMITED": "write forever", "infinite": "write forever", "30min": "write 30m", "4 hours": "write 4h", "2days": "write 2d", "1.5hrs": "write 1.5h", "45 sec": "write 45s", "1.5days": "write it like 90s, 10m, 2h, 7d or forever", "99999999d": "write it like 90s, 10m, 2h, 7d or forever",
		"soon": "write it like 90s, 10m, 2h, 7d or forever", "1:2:3:4": "write it like 90s, 10m, 2h, 7d or forever", "4x": "write it like 90s, 10m, 2h, 7d or forever", "-4:00:00": "write it like 90s, 10m, 2h, 7d or forever",
	} {
		length, err := ParseLength(text)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, %v; want %s", text, length, err, want)
		}
		if strings.Contains(want, "like") {
			continue
		}
		for word := range strings.FieldsSeq(strings.TrimPrefix(want, "write ")) {
			if _, err := ParseLength(word); err != nil && (word[0] >= '0' && word[0] <= '9' || word == "forever") {
				t.Errorf("%q is told to write %q: %v", text, word, err)
			}
		}
	}
}
