package console

import (
	"fmt"
	"time"
)

// Moment parses a time, or a length of time before now. It returns the zero time for an
// empty text. Its error continues the name of the flag.
func Moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := parseLength(text); err == nil && ago >= 0 {
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
	if length, err := parseLength(text); err == nil && length >= 0 {
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
