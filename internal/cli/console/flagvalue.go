package console

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Memory is the value of a flag that takes 4GiB or 512M.
type Memory gpu.MiB

// Set parses the value. It refuses a number without a unit.
func (v *Memory) Set(text string) error {
	if err := words.NoUnit(text, "GiB", "MiB"); err != nil {
		return err
	}
	m, err := gpu.ParseMiB(text)
	*v = Memory(m)
	return err
}

// String returns the value as Set parses it, or "" if it is 0.
func (v *Memory) String() string {
	if *v == 0 {
		return ""
	}
	return gpu.MiB(*v).String()
}

// Type returns the kind of value for the help.
func (*Memory) Type() string { return "memory" }

// Seconds is the value of a flag for a length of time: 90s, 10m, 30d, forever, or 0. It is
// absent if the flag is not given.
type Seconds struct {
	gpu.Opt[float64]
	Plain   bool // a number without a unit means seconds
	Forever bool // the value was forever, which stands for the longest that the daemon takes
}

// longest is the longest wait, and the longest time to live, that the daemon takes.
const longest = 30 * 24 * time.Hour

// Set parses the value. It lets the daemon refuse a value that is too long.
func (v *Seconds) Set(text string) error {
	seconds, err := strconv.ParseFloat(text, 64)
	if err == nil && seconds != 0 && !v.Plain {
		if seconds > 0 {
			return words.NoUnit(text, "s", "m", "h")
		}
		seconds = -1
	}
	if err != nil {
		var length time.Duration
		length, err = words.ParseLength(text)
		if v.Forever = length == words.Forever; v.Forever {
			length = longest
		}
		seconds = length.Seconds()
	}
	if err != nil || !(seconds >= 0) || math.IsInf(seconds, 0) {
		return fmt.Errorf("%q is not a length of time: %w", text, cmp.Or(err, errors.New("write it like 90s, 10m, 30d or forever")))
	}
	v.Opt = gpu.Some(seconds)
	return nil
}

// Limit returns the value, or nothing if it is forever.
func (v *Seconds) Limit() gpu.Opt[float64] {
	if v.Forever {
		return gpu.Opt[float64]{}
	}
	return v.Opt
}

// Duration returns the length of time, or 0 if the flag is not given.
func (v *Seconds) Duration() time.Duration { return time.Duration(v.Or(0) * float64(time.Second)) }

// String returns the value as Set parses it, or "" if the flag is not given.
func (v *Seconds) String() string {
	if !v.Known() {
		return ""
	}
	return v.Duration().String()
}

// Type returns the kind of value for the help.
func (*Seconds) Type() string { return "time" }

// leastShare is the smallest share that a lease can be held to.
const leastShare = 0.05

// ParseShare reads a part of a whole, written as 50% or 0.5.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= leastShare && share <= 1) {
		return 0, fmt.Errorf("%q is not a share: write 5%% to 100%%, or 0.05 to 1", text)
	}
	return share, nil
}

// Moment parses a time, or a length of time before now. It returns the zero time for an
// empty text. Its error continues the name of the flag.
func Moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := words.ParseLength(text); err == nil && ago >= 0 && ago != words.Forever {
		return now.Add(-ago), nil
	}
	if t, ok := date(text, now); ok {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("takes a length of time such as 10m or 7d, or a time such as %s, not %q", now.Format(time.RFC3339), text)
}

// Ahead parses a future time: a date, an hour of today or tomorrow, or a length of time
// from now. It returns the zero time for an empty text. Its error continues the name of
// the flag.
func Ahead(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, dated := date(text, now)
	if length, err := words.ParseLength(text); err == nil && length >= 0 && length != words.Forever {
		t, dated = now.Add(length), true
	} else if hour, err := time.ParseInLocation("15:04", text, now.Location()); err == nil {
		year, month, day := now.Date()
		if t, dated = time.Date(year, month, day, hour.Hour(), hour.Minute(), 0, 0, now.Location()), true; !t.After(now) {
			t = t.AddDate(0, 0, 1)
		}
	}
	switch {
	case !dated:
		return time.Time{}, fmt.Errorf("takes an hour such as 18:00, a length of time such as 2h, or a time such as %s, not %q", now.Format(time.RFC3339), text)
	case !t.After(now):
		return time.Time{}, fmt.Errorf("must be in the future, and %s is not", text)
	}
	return t, nil
}

// date parses a date with or without an hour.
func date(text string, now time.Time) (time.Time, bool) {
	for _, format := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(format, text, now.Location()); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
