package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Count returns a number with its noun: "1 run", "2 runs", "0 processes".
func Count[N ~int | ~int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatInt(int64(n), 10) + " " + plural(noun)
}

// Form returns one for the number 1, and many for every other number. It is for
// what Count cannot say: Form(n, "run waits", "runs wait").
func Form[N ~int | ~int64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// plural returns the plural of a regular English noun.
func plural(noun string) string {
	switch {
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "sh"):
		return noun + "es"
	case strings.HasSuffix(noun, "y") && len(noun) > 1 && !strings.ContainsRune("aeiou", rune(noun[len(noun)-2])):
		return noun[:len(noun)-1] + "ies"
	}
	return noun + "s"
}

// Thousands returns a large number in readable form: "1,234,567". It returns "0" for
// negative numbers.
func Thousands(n int64) string {
	digits := strconv.FormatInt(max(n, 0), 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// CountThousands returns a large number with its noun: "12,345 records".
func CountThousands(n int64, noun string) string {
	return Thousands(n) + " " + Form(n, noun, plural(noun))
}

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
