package words

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
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
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, notALength(text)
	}
	length := time.Duration(n) * 24 * time.Hour
	if rest == "" && found {
		return length, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || found && more < 0 || more > Forever-length {
		return 0, notALength(text)
	}
	return length + more, nil
}

// notALength returns the error that says what to write instead of a text.
func notALength(text string) error {
	if meant := meantLength(text); meant != "" {
		return errors.New("write " + meant)
	}
	return errors.New("write it like 90s, 10m, 2h, 7d or forever")
}

// meantLength returns how berth writes a length of time that is written as Slurm or as
// people do; "" if it is neither. Two numbers are minutes and seconds to Slurm, and hours
// and minutes to most people, so it returns both.
func meantLength(text string) string {
	switch strings.ToLower(text) {
	case "unlimited", "infinite", "infinity", "none", "never":
		return "forever"
	}
	worded := regexp.MustCompile(`^(\d{1,4}(?:\.\d+)?) *(s|m|h|d)(?:|ecs?|econds?|ins?|inutes?|rs?|ours?|ays?)$`)
	if m := worded.FindStringSubmatch(strings.ToLower(text)); m != nil && !(m[2] == "d" && strings.Contains(m[1], ".")) {
		return m[1] + m[2]
	}
	clock := regexp.MustCompile(`^(?:(\d{1,4})-)?(\d{1,4})(?::(\d\d))?(?::(\d\d))?$`)
	m := clock.FindStringSubmatch(text)
	switch {
	case m == nil:
		return ""
	case m[1] != "" || m[4] != "":
		return lengthOf(m[1], "d", m[2], "h", m[3], "m", m[4], "s")
	case m[3] != "":
		return lengthOf(m[2], "m", m[3], "s") + " (minutes, as for Slurm) or " + lengthOf(m[2], "h", m[3], "m") + " (hours)"
	}
	return ""
}

// lengthOf writes numbers with their units, without those that are zero.
func lengthOf(parts ...string) (text string) {
	for i := 0; i < len(parts); i += 2 {
		if n := strings.TrimLeft(parts[i], "0"); n != "" {
			text += n + parts[i+1]
		}
	}
	return cmp.Or(text, "0s")
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
