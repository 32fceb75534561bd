package term

import (
	"math"
	"strings"
)

// Spark draws values as a line of small columns, one for each value, between the heights
// lo and hi. It leaves a blank for NaN, because unknown is not small.
func Spark(values []float64, lo, hi float64) string {
	const steps, bytes = "▁▂▃▄▅▆▇█", len("▁")
	var b strings.Builder
	for _, v := range values {
		if math.IsNaN(v) {
			b.WriteByte(' ')
			continue
		}
		at := bytes * int(math.Round(share(v, lo, hi)*7))
		b.WriteString(steps[at : at+bytes])
	}
	return b.String()
}

// Area draws values as a filled curve between the heights lo and hi, on lines of
// characters with two columns and four rows of dots each. The top line comes first, and
// each line has half as many characters as there are values. Area leaves out NaN.
func Area(values []float64, lo, hi float64, lines int) []string {
	// The dots of a character are bits, from the lowest dot of each column up.
	columns := [2][4]rune{{0x40, 0x04, 0x02, 0x01}, {0x80, 0x20, 0x10, 0x08}}
	picture := make([][]rune, lines)
	for i := range picture {
		picture[i] = []rune(strings.Repeat("\u2800", (len(values)+1)/2))
	}
	for x, v := range values {
		if math.IsNaN(v) {
			continue
		}
		high := max(1, int(math.Round(share(v, lo, hi)*float64(4*lines)))) // show a small value too
		for dot := range high {
			picture[lines-1-dot/4][x/2] |= columns[x%2][dot%4]
		}
	}
	texts := make([]string, lines)
	for i, line := range picture {
		texts[i] = strings.ReplaceAll(string(line), "\u2800", " ")
	}
	return texts
}

// share returns the position of a value between lo and hi, from 0 to 1.
func share(v, lo, hi float64) float64 {
	if hi <= lo {
		return 0
	}
	return min(max((v-lo)/(hi-lo), 0), 1)
}

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
