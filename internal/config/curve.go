package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// CurvePoint is the fan speed at and above a temperature.
type CurvePoint struct {
	At    gpu.Celsius
	Speed gpu.Percent
}

// ParseCurve reads a fan curve such as 50:30,70:60,85:100. Temperatures must
// rise, and speeds must not fall.
func ParseCurve(text string) ([]CurvePoint, error) {
	var curve []CurvePoint
	for part := range strings.SplitSeq(text, ",") {
		at, speed, found := strings.Cut(strings.TrimSpace(part), ":")
		celsius, err := strconv.ParseFloat(at, 64)
		percent, err2 := strconv.ParseFloat(speed, 64)
		switch {
		case !found || err != nil || err2 != nil:
			return nil, fmt.Errorf("%s is not a point of a fan curve: write °C:%% such as 70:60, and commas between points", scalar{text: part})
		case !(celsius >= 0 && celsius <= 120) || !(percent >= 0 && percent <= 100):
			return nil, fmt.Errorf("%s is out of range: temperatures are 0 to 120 °C, speeds 0 to 100 %%", scalar{text: part})
		}
		p := CurvePoint{gpu.Celsius(celsius), gpu.Percent(percent)}
		if n := len(curve); n > 0 && (p.At <= curve[n-1].At || p.Speed < curve[n-1].Speed) {
			return nil, fmt.Errorf("%s must be hotter, and no slower, than the point before it", scalar{text: part})
		}
		curve = append(curve, p)
	}
	return curve, nil
}
