package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// kind says how a setting is written. A value that was read is a string, a []string, a
// Variables, a []Call or a float64: memory in MiB, durations in seconds, and whole
// numbers up to 2^53 all fit, and one type keeps ranges and comparisons simple.
type kind int

const (
	text kind = iota
	list
	number
	whole
	celsius
	percent
	watts
	memory
	seconds
	variables
	calls
)

// kindOf returns the kind for a Go type. Only kindOf knows the types that a setting can
// have.
func kindOf(t reflect.Type) kind {
	switch reflect.Zero(t).Interface().(type) {
	case string:
		return text
	case []string:
		return list
	case float64, gpu.Opt[float64]:
		return number
	case int, gpu.Opt[int]:
		return whole
	case gpu.Celsius, gpu.Opt[gpu.Celsius]:
		return celsius
	case gpu.Percent, gpu.Opt[gpu.Percent]:
		return percent
	case gpu.Watts, gpu.Opt[gpu.Watts]:
		return watts
	case gpu.MiB, gpu.Opt[gpu.MiB]:
		return memory
	case time.Duration, gpu.Opt[time.Duration]:
		return seconds
	case Variables:
		return variables
	case []Call:
		return calls
	}
	panic("config: no kind for " + t.String())
}

func isOpt(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[interface{ Known() bool }]())
}

// wanted says in complaints what to write.
func (k kind) wanted() string {
	switch k {
	case text:
		return "text"
	case list:
		return "a list such as [first, second]"
	case whole:
		return "a whole number"
	case memory:
		return "a number of MiB such as 2048, or text such as 4GiB"
	case seconds:
		return "a number of seconds such as 30, or text such as 500ms"
	case variables:
		return "variables such as {NAME: value}"
	case calls:
		return "a list of requests such as [{method: POST, path: /sleep}]"
	}
	return "a number"
}

func (k kind) unit() string {
	switch k {
	case celsius:
		return "°C"
	case percent:
		return "%"
	case watts:
		return "W"
	case memory:
		return "MiB"
	case seconds:
		return "s"
	}
	return ""
}

// scalar is a value as written.
type scalar struct {
	text string
	tag  tag
}

// tag is the type that the language of the source gives a scalar.
type tag int

const (
	bare   tag = iota // environment and flags have no types
	quoted            // text
	digits            // a number
	other             // true, false and the like
)

func (s scalar) String() string {
	shown := words.Cut(s.text, 40)
	if s.tag == digits || s.tag == other {
		return shown
	}
	return strconv.Quote(shown)
}

// maxMemory is a million TiB, which keeps every sum far from overflow.
const maxMemory = 1 << 40

// read turns a written value into a value of the kind.
func (k kind) read(s scalar) (any, error) {
	if k == text {
		return readText(s)
	}
	v, ok := readNumber(s)
	if !ok && s.tag != digits {
		v, ok = k.readUnit(s.text)
	}
	switch {
	case k == list || k == variables || k == calls || !ok:
		return nil, fmt.Errorf("must be %s, not %s", k.wanted(), s)
	case k == whole && v != math.Trunc(v):
		return nil, fmt.Errorf("must be a whole number, not %s", s)
	case k == memory && v != math.Trunc(v):
		return nil, fmt.Errorf("must be a whole number of MiB, not %s", s)
	case k == memory && v > maxMemory:
		return nil, fmt.Errorf("%s is more memory than any machine has", s)
	}
	return v, nil
}

func readText(s scalar) (any, error) {
	switch {
	case !utf8.ValidString(s.text):
		return nil, errors.New("must be valid UTF-8")
	case strings.ContainsFunc(s.text, unicode.IsControl):
		return nil, errors.New("must not hold control characters")
	}
	return s.text, nil
}

func readNumber(s scalar) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s.text), 64)
	// Above 2^53, a float64 skips whole numbers. NaN fails as well.
	ok := err == nil && math.Abs(v) <= 1<<53
	return v, ok && (s.tag == digits || s.tag == bare)
}

// readUnit reads 4GiB, 500ms and 90d.
func (k kind) readUnit(written string) (float64, bool) {
	switch k {
	case memory:
		m, err := gpu.ParseMiB(written)
		return float64(m), err == nil
	case seconds:
		written = strings.TrimSpace(written)
		if number, days := strings.CutSuffix(written, "d"); days {
			n, err := strconv.ParseUint(number, 10, 16)
			return float64(n) * 24 * 3600, err == nil
		}
		d, err := time.ParseDuration(written)
		return d.Seconds(), err == nil
	}
	return 0, false
}

// store puts a value that was read into its Go field. It goes through JSON, which fills
// plain and optional fields of every type alike.
func (k kind) store(v any, into reflect.Value) {
	switch n, _ := v.(float64); k {
	case whole, memory:
		v = int64(n)
	case seconds:
		v = int64(math.Round(n * float64(time.Second)))
	}
	into.SetZero() // a map or a list replaces the one of a weaker source
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, into.Addr().Interface())
	}
	if err != nil {
		panic(fmt.Sprintf("config: store %v in a %s: %v", v, into.Type(), err))
	}
}

// load is the opposite of store. It reports false for an absent value.
func (k kind) load(from reflect.Value) (any, bool) {
	if isOpt(from.Type()) {
		value := from.MethodByName("Get").Call(nil)
		if !value[1].Bool() {
			return nil, false
		}
		from = value[0]
	}
	switch {
	case k == text:
		return from.String(), true
	case k == list, k == variables, k == calls:
		return from.Interface(), from.Len() > 0
	case k == seconds:
		return float64(from.Int()) / float64(time.Second), true
	case from.CanInt():
		return float64(from.Int()), true
	}
	return from.Float(), true
}

// format returns a value as written in berth.yaml.
func format(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []string:
		return "[" + strings.Join(v, ", ") + "]"
	case float64:
		return formatNumber(v)
	case Variables:
		return v.String()
	case []Call:
		shown := make([]string, len(v))
		for i, c := range v {
			shown[i] = c.Method + " " + c.Path
		}
		return "[" + strings.Join(shown, ", ") + "]"
	}
	return ""
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

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
