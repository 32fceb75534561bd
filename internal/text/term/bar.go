package term

import (
	"math"
	"strings"
)

// Bar draws a share of size columns. It draws nothing for NaN, because unknown is not
// empty.
func Bar(percent float64, size int) string {
	if math.IsNaN(percent) {
		return strings.Repeat(" ", size)
	}
	full := int(math.Round(min(max(percent, 0), 100) / 100 * float64(size)))
	if percent > 0 && full == 0 && size > 0 {
		full = 1 // show a small share too
	}
	return strings.Repeat("█", full) + strings.Repeat("░", size-full)
}
