package flagvalue

import (
	"fmt"
	"time"
)

// Moment reads a time, or how long before now it was. It returns the zero time
// for an empty text. Its error continues the name of the flag.
func Moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := parseLength(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, format := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(format, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("takes a length of time such as 10m or 7d, or a time such as %s, not %q", now.Format(time.RFC3339), text)
}
