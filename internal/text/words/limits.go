package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// NumberProblem says what is wrong with a number that must be from least to most. It
// returns "" if it is right.
func NumberProblem(n, least, most int) string {
	if n < least || n > most {
		return fmt.Sprintf("is %d; it must be from %d to %d", n, least, most)
	}
	return ""
}

// TimeProblem says what is wrong with a time in seconds that must be from least to most.
// It returns "" if it is right.
func TimeProblem(d, least, most time.Duration) string {
	if d < least || d > most {
		return fmt.Sprintf("is %s; it must be from %s to %s (%g days)", Seconds(d), Seconds(least), Seconds(most), most.Hours()/24)
	}
	return ""
}

// Seconds returns a time as a number of seconds.
func Seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// NameProblem says what is wrong with the name of a systemd unit or a control group. It
// returns "" if it is right.
func NameProblem(name string) string {
	if strings.Contains(name, "/") {
		return fmt.Sprintf("has a name with a slash, %q; give the name alone, without the path", name)
	}
	return TextProblem(name)
}

// NamesProblem says what is wrong with a list of such names, which may have at most most
// entries. It returns "" if it is right.
func NamesProblem(names []string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("has %d names; at most %d are allowed", len(names), most)
	}
	for _, name := range names {
		if detail := NameProblem(name); detail != "" {
			return detail
		}
	}
	return ""
}
