package sim

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/trace"
)

// recording is the recorded behaviour of a real device, to be played again. A row holds
// until the next one. After the last row, the recording begins again.
type recording struct {
	points []trace.Point
	joules []float64     // energy since the beginning of the recording, by point
	length time.Duration // includes the time that the last row holds
	total  float64       // joules of the whole recording
}

// maxTrace is the size of the largest recording to read, in bytes.
const maxTrace = 64 << 20

// traceName is the name of a model that is a recording. With a "=", it begins the part of
// a spec that names its file.
const traceName = "trace"

// recordingError says that a recording cannot be played.
type recordingError struct{ err error }

func (e *recordingError) Error() string { return e.err.Error() }
func (e *recordingError) Unwrap() error { return e.err }

// recorded returns a model that plays a file. A base model supplies what the recording
// does not say.
func recorded(base *model, path string) (*model, error) {
	r, err := readRecording(path)
	if err != nil {
		return nil, &recordingError{err}
	}
	m := *base
	m.Name, m.Title = traceName, "recording "+gpu.Printable(filepath.Base(path), 64)
	m.recording, m.ComputeCapability, m.ECC, m.Fan, m.DriverMemory = r, "", false, nil, 0
	for _, p := range r.points {
		if total, known := p.MemoryTotal.Get(); known && total > 0 {
			m.Memory = total
			break
		}
	}
	return &m, nil
}

func readRecording(path string) (*recording, error) {
	if path == "" {
		return nil, errors.New("trace= names no file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxTrace {
		return nil, errors.Join(err, fmt.Errorf("%s is not a file of at most %d MiB", path, maxTrace>>20))
	}
	t, err := trace.Read(io.LimitReader(file, maxTrace))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(t.Points) == 0 {
		return nil, fmt.Errorf("%s: the recording has a header and no rows", path)
	}
	return newRecording(t.Points), nil
}

// usualStep is how long the only row of a recording holds.
const usualStep = time.Second

func newRecording(points []trace.Point) *recording {
	r := &recording{points: points, joules: make([]float64, len(points))}
	begin := points[0].At
	steps := []time.Duration{}
	for i := range points {
		points[i].At -= begin
		if i > 0 {
			steps = append(steps, points[i].At-points[i-1].At)
			// These are read rarely, and therefore are in few rows.
			points[i].Energy = cmp.Or(points[i].Energy, points[i-1].Energy)
			points[i].Fan = cmp.Or(points[i].Fan, points[i-1].Fan)
		}
	}
	step := usualStep
	if len(steps) > 0 {
		slices.Sort(steps)
		step = max(steps[len(steps)/2], time.Millisecond)
	}
	r.length = points[len(points)-1].At + step
	counted, power := 0.0, 0.0
	for i, p := range points {
		if i > 0 {
			// Where the counter says nothing, and where it was reset, the measured power
			// gives the energy.
			used := power * (p.At - points[i-1].At).Seconds()
			now, known := p.Energy.Get()
			before, knew := points[i-1].Energy.Get()
			if known && knew && now >= before {
				used = now - before
			}
			counted += used
		}
		power = float64(p.Power.Or(gpu.Watts(power)))
		r.joules[i] = counted
	}
	r.total = counted + power*step.Seconds()
	return r
}

// at returns the row that holds at a moment, and the joules used until then.
func (r *recording) at(now time.Duration) (trace.Point, float64) {
	rounds, into := now/r.length, now%r.length
	i := sort.Search(len(r.points), func(i int) bool { return r.points[i].At > into }) - 1
	return r.points[i], float64(rounds)*r.total + r.joules[i]
}

// fast fills a sample from the recording. load is the load that today's programs add,
// from 0 to 1.
func (r *recording) fast(now time.Duration, load float64, into *gpu.Sample) {
	p, _ := r.at(now)
	if was, known := p.Utilization.Get(); known || load > 0 {
		into.Utilization = gpu.Some(min(100, was+gpu.Percent(100*load)))
	}
	into.Temperature, into.MemoryTemperature, into.Power, into.ClockSM = p.Temperature, p.MemoryTemperature, p.Power, p.ClockSM
	for word := range strings.FieldsFuncSeq(p.Throttle, func(c rune) bool { return strings.ContainsRune(" ,;|+", c) }) {
		if reason := gpu.ThrottleReason(word); slices.Contains(throttleReasons, reason) {
			into.Throttle = append(into.Throttle, reason)
		}
	}
}

// throttleReasons are the words for reasons in recordings of berth.
var throttleReasons = []gpu.ThrottleReason{
	gpu.ThrottleIdle, gpu.ThrottlePowerCap, gpu.ThrottleThermal, gpu.ThrottleThermalHW, gpu.ThrottlePowerBrake,
	gpu.ThrottleHardware, gpu.ThrottleAppClocks, gpu.ThrottleDisplayClocks, gpu.ThrottleSync,
}

// slow fills the slow part of a sample from the recording.
func (r *recording) slow(now time.Duration, into *gpu.Slow) {
	p, joules := r.at(now)
	into.Energy, into.Fan = gpu.Some(joules), p.Fan
}

// memoryUsed returns the memory that was used in the recording.
func (r *recording) memoryUsed(now time.Duration) gpu.MiB {
	p, _ := r.at(now)
	return p.MemoryUsed.Or(0)
}
