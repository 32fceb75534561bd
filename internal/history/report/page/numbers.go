package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// memoryHours formats MiB times hours as GiB times hours.
func memoryHours(mbHours float64) string { return round(mbHours/1024) + " GiB·h" }

// round formats a number with as many decimals as it needs to be useful.
func round(v float64) string {
	switch {
	case v != 0 && math.Abs(v) < 0.0005:
		return "<0.001"
	case v != 0 && math.Abs(v) < 0.095:
		return strings.TrimRight(strconv.FormatFloat(v, 'f', 3, 64), "0")
	case math.Abs(v) < 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return words.Thousands(int64(math.Round(v)))
}

// hours formats a number of seconds as hours.
func hours(seconds float64) string {
	if seconds <= 0 {
		return "–"
	}
	if seconds < 60 {
		return strconv.FormatFloat(math.Ceil(seconds), 'f', 0, 64) + " s"
	}
	if seconds < 3600 {
		return strconv.FormatFloat(seconds/60, 'f', 0, 64) + " min"
	}
	return round(seconds/3600) + " h"
}

// percent formats a part of a whole.
func percent(part, whole float64) string {
	if whole <= 0 {
		return "–"
	}
	share := 100 * part / whole
	if share > 0 && share < 1 {
		return "<1 %"
	}
	return fmt.Sprintf("%.0f %%", share)
}

func optional[T ~float64](v gpu.Opt[T], format string) string {
	if value, known := v.Get(); known {
		return fmt.Sprintf(format, float64(value))
	}
	return "–"
}

// wait formats a waiting time.
func wait(seconds float64) string {
	if seconds < 1 {
		return fmt.Sprintf("%.0f ms", seconds*1000)
	}
	return words.Age(time.Duration(seconds * float64(time.Second)))
}

func (b *builder) cost(j gpu.Joules) string {
	amount, priced := b.Energy.Cost(j).Get()
	if !priced {
		return "–"
	}
	return fmt.Sprintf("%.2f %s", amount, b.Energy.Currency)
}
