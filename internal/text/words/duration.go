package words

import (
	"fmt"
	"strconv"
	"time"
)

// Duration returns how long something took, as people say it. The longer it
// took, the more Duration rounds; it never rounds to nothing.
func Duration(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		tenths := max(d.Round(100*time.Millisecond), 100*time.Millisecond)
		return strconv.FormatFloat(tenths.Seconds(), 'f', -1, 64) + " s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// Age returns how long something has lasted so far, as people say their age: in
// whole units, rounded down.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
