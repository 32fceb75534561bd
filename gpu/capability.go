package gpu

import (
	"fmt"
	"strconv"
	"strings"
)

// Capability is a compute capability such as 9.0. It holds two whole numbers,
// because as a text 12.1 would come before 9.0, and as a fraction 8.10 before
// 8.9.
type Capability struct{ Major, Minor int }

// ParseCapability reads "9.0" or "9".
func ParseCapability(text string) (Capability, error) {
	major, minor, dotted := strings.Cut(text, ".")
	if !dotted {
		minor = "0"
	}
	a, errA := strconv.ParseUint(major, 10, 16)
	b, errB := strconv.ParseUint(minor, 10, 16)
	if errA != nil || errB != nil || a == 0 {
		return Capability{}, fmt.Errorf("%q is not a compute capability: write it like 8.0", text)
	}
	return Capability{int(a), int(b)}, nil
}

// Less reports whether c is below d.
func (c Capability) Less(d Capability) bool {
	if c.Major != d.Major {
		return c.Major < d.Major
	}
	return c.Minor < d.Minor
}

func (c Capability) String() string { return fmt.Sprintf("%d.%d", c.Major, c.Minor) }
