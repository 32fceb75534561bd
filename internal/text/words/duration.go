package words

import (
	"fmt"
	"strconv"
	"time"
)

// Duration returns the length of d in words. The longer d is, the more Duration rounds;
// it never rounds to nothing.
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

// Age returns d as people tell an age: in whole units, rounded down.
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
