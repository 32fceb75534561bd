package console

import (
	"fmt"
	"strconv"
	"strings"
)

// Share is a part of a whole, written as 50% or 0.5.
type Share float64

// leastShare is the smallest share that a lease can be held to.
const leastShare = 0.05

// Set parses the value.
func (v *Share) Set(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= leastShare && share <= 1) {
		return fmt.Errorf("%q is not a share: write 5%% to 100%%, or 0.05 to 1", text)
	}
	*v = Share(share)
	return nil
}

// String returns the value as Set parses it.
func (v *Share) String() string { return strconv.FormatFloat(float64(*v)*100, 'g', 4, 64) + "%" }

// Type returns the kind of value for the help.
func (*Share) Type() string { return "share" }
