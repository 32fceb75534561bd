package words

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Forever is the length of time that has no end.
const Forever = time.Duration(math.MaxInt64)

// ParseLength parses a length of time that a person wrote: as Go writes it, with days
// before it or alone, as in 90s, 1h30m, 7d and 1d12h, or the word forever.
func ParseLength(text string) (time.Duration, error) {
	if text == "forever" {
		return Forever, nil
	}
	wrong := errors.New("write it like 90s, 10m, 2h, 7d or forever")
	if length, ok := strings.CutSuffix(text, ":00:00"); ok && strings.Trim(length, "0123456789") == "" && length != "" { // as Slurm writes it
		wrong = fmt.Errorf("write %sh", length)
	}
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, wrong
	}
	length := time.Duration(n) * 24 * time.Hour
	if rest == "" && found {
		return length, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || found && more < 0 || more > Forever-length {
		return 0, wrong
	}
	return length + more, nil
}

// NoUnit returns an error if a text is a number and nothing else, which asks which of
// these units was meant; nil if it is anything else.
func NoUnit(text string, units ...string) error {
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return nil
	}
	guesses := make([]string, len(units))
	for i, unit := range units {
		guesses[i] = text + unit
	}
	return fmt.Errorf("%q has no unit: %s?", text, Or(guesses))
}
