package console

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Memory is the value of a flag that takes 4GiB, 512M, or a plain number of MB.
type Memory gpu.MiB

// Set parses the value.
func (v *Memory) Set(text string) error {
	m, err := gpu.ParseMiB(text)
	*v = Memory(m)
	return err
}

// String returns the value as Set parses it, or "" if it is 0.
func (v *Memory) String() string {
	if *v == 0 {
		return ""
	}
	return gpu.MiB(*v).String()
}

// Type returns the kind of value for the help.
func (*Memory) Type() string { return "memory" }

// Seconds is the value of a flag for a length of time: 90s, 10m, 30d, or a plain number
// of seconds. It is absent if the flag is not given.
type Seconds struct{ gpu.Opt[float64] }

// Set parses the value. It lets the daemon refuse a value that is too long.
func (v *Seconds) Set(text string) error {
	length, err := parseLength(text)
	seconds := length.Seconds()
	if err != nil {
		seconds, err = strconv.ParseFloat(text, 64)
	}
	if err != nil || !(seconds >= 0) || math.IsInf(seconds, 0) {
		return fmt.Errorf("%q is not a length of time: write 90s, 10m, 30d, or 30 for seconds", text)
	}
	v.Opt = gpu.Some(seconds)
	return nil
}

// parseLength parses a length of time as Go writes it, or a number of days, as in 90d.
func parseLength(text string) (time.Duration, error) {
	const longest = math.MaxInt64 / (24 * time.Hour)
	if number, days := strings.CutSuffix(text, "d"); days {
		n, err := strconv.Atoi(number)
		if err == nil && (n < 0 || n > int(longest)) {
			err = strconv.ErrRange
		}
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// Duration returns the length of time, or 0 if the flag is not given.
func (v *Seconds) Duration() time.Duration { return time.Duration(v.Or(0) * float64(time.Second)) }

// String returns the value as Set parses it, or "" if the flag is not given.
func (v *Seconds) String() string {
	if !v.Known() {
		return ""
	}
	return v.Duration().String()
}

// Type returns the kind of value for the help.
func (*Seconds) Type() string { return "time" }
