package cli

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// memoryValue is a flag that takes 4GiB, 512M, or a plain number of MB.
type memoryValue gpu.MiB

func (v *memoryValue) Set(text string) error {
	m, err := gpu.ParseMiB(text)
	*v = memoryValue(m)
	return err
}

func (v *memoryValue) String() string {
	if *v == 0 {
		return ""
	}
	return gpu.MiB(*v).String()
}

func (*memoryValue) Type() string { return "memory" }

// secondsValue is a flag for a length of time: 90s, 10m, or a plain number of
// seconds. It is absent unless it was given.
type secondsValue struct{ gpu.Opt[float64] }

func (v *secondsValue) Set(text string) error {
	length, err := time.ParseDuration(text)
	seconds := length.Seconds()
	if err != nil {
		seconds, err = strconv.ParseFloat(text, 64)
	}
	if err != nil || !(seconds >= 0) || math.IsInf(seconds, 0) { // what is too long, the daemon says
		return fmt.Errorf("%q is not a length of time: write 90s, 10m, or 30 for seconds", text)
	}
	v.Opt = gpu.Some(seconds)
	return nil
}

func (v *secondsValue) String() string {
	if seconds, given := v.Get(); given {
		return time.Duration(seconds * float64(time.Second)).String()
	}
	return ""
}

func (*secondsValue) Type() string { return "time" }
