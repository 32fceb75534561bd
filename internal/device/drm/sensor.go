package drm

import (
	"path/filepath"
	"slices"
	"strconv"

	"github.com/berth-gpu/berth/gpu"
)

// Sensors are the sensors of a card in the kernel's hardware monitoring: temperatures in
// thousandths of a degree, power in millionths of a watt, energy in millionths of a
// joule.
type Sensors struct {
	dir   string
	temps map[string]int // number of the sensor by label
}

// Sensors finds the sensors of a card. A card without any has no values.
func (c *Card) Sensors() Sensors {
	s := Sensors{temps: map[string]int{}}
	dirs, _ := filepath.Glob(filepath.Join(c.Device, "hwmon/hwmon*"))
	for _, dir := range dirs {
		if name, err := Text(dir, "name"); err == nil && name == c.Driver {
			s.dir = dir
			break
		}
	}
	if s.dir == "" {
		return s
	}
	const most = 8
	for i := 1; i <= most; i++ {
		if !Exists(s.dir, temp(i, "input")) {
			continue
		}
		label, err := Text(s.dir, temp(i, "label"))
		if err != nil {
			label = strconv.Itoa(i)
		}
		s.temps[label] = i
	}
	return s
}

func temp(i int, what string) string { return "temp" + strconv.Itoa(i) + "_" + what }

// hottest is the highest temperature that berth believes: a missing sensor often reads as
// ones.
const hottest = 200

// Temperature reads the first sensor of labels that exists, by label or, where there is
// none, by number. what is "input", "crit" or "emergency".
func (s *Sensors) Temperature(what string, labels ...string) gpu.Opt[gpu.Celsius] {
	for _, label := range labels {
		i, there := s.temps[label]
		if !there {
			continue
		}
		n, err := Number(s.dir, temp(i, what))
		t := gpu.Celsius(n) / 1000
		if err != nil || t < -50 || t > hottest || what != "input" && t <= 0 {
			return gpu.Opt[gpu.Celsius]{}
		}
		return gpu.Some(t)
	}
	return gpu.Opt[gpu.Celsius]{}
}

// HasTemperature reports whether one of the sensors exists.
func (s *Sensors) HasTemperature(labels ...string) bool {
	return slices.ContainsFunc(labels, func(label string) bool { _, there := s.temps[label]; return there })
}

// mostWatts is the highest power that berth believes.
const mostWatts = 5000

// Watts reads the first of the files that holds a power.
func (s *Sensors) Watts(names ...string) gpu.Opt[gpu.Watts] {
	for _, name := range names {
		if n, err := s.Number(name); err == nil {
			if w := watts(n); w.Known() {
				return w
			}
		}
	}
	return gpu.Opt[gpu.Watts]{}
}

// watts returns a power that a driver gives in microwatts, if it is one.
func watts(micro int64) gpu.Opt[gpu.Watts] {
	if w := gpu.Watts(micro) / 1e6; w >= 0 && w <= mostWatts {
		return gpu.Some(w)
	}
	return gpu.Opt[gpu.Watts]{}
}

// Joules reads the first of the files that counts energy.
func (s *Sensors) Joules(names ...string) gpu.Opt[float64] {
	for _, name := range names {
		if n, err := s.Number(name); err == nil && n >= 0 {
			return gpu.Some(float64(n) / 1e6)
		}
	}
	return gpu.Opt[float64]{}
}

// Megahertz reads a file that holds a frequency in hertz.
func (s *Sensors) Megahertz(name string) gpu.Opt[gpu.MHz] {
	n, err := s.Number(name)
	if err != nil || n < 0 || n > 30e9 {
		return gpu.Opt[gpu.MHz]{}
	}
	return gpu.Some(gpu.MHz(n) / 1e6)
}

// Fan returns the speed of the first fan as a share of its full speed.
func (s *Sensors) Fan() gpu.Opt[gpu.Percent] {
	if n, err := s.Number("pwm1"); err == nil && n >= 0 && n <= 255 {
		return gpu.Some(gpu.Percent(n) * 100 / 255)
	}
	turns, err := s.Number("fan1_input")
	most, err2 := s.Number("fan1_max")
	if err != nil || err2 != nil || turns < 0 || most <= 0 {
		return gpu.Opt[gpu.Percent]{}
	}
	return gpu.Some(min(gpu.Percent(turns)*100/gpu.Percent(most), 100))
}

// Number reads a file of the sensors. An empty name is that of no sensor.
func (s *Sensors) Number(name string) (int64, error) {
	if s.dir == "" || name == "" {
		return 0, errNoSensors
	}
	return Number(s.dir, name)
}

// Write writes a file of the sensors.
func (s *Sensors) Write(name string, n int64) error {
	if s.dir == "" {
		return errNoSensors
	}
	return Write(n, s.dir, name)
}
