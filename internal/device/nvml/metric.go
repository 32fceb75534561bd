package nvml

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// metric is one value that a device may have. A card remembers the metrics that
// its device does not have.
type metric uint

const (
	utilization metric = iota
	memory
	temperature
	memoryTemperature
	power
	clockSM
	clockMemory
	throttle
	computeProcesses
	mpsProcesses
	graphicsProcesses
	energy
	fan
	pcieTx
	pcieRx
	eccCorrected
	eccUncorrected
	processUtilization
)

// metrics is a set of metric values.
type metrics uint32

func (s metrics) has(m metric) bool { return s&(1<<m) != 0 }
func (s *metrics) add(m metric)     { *s |= 1 << m }

// round is one series of questions to a device.
type round struct {
	absent  *metrics
	doubted *metrics // those that were refused when they were last asked for
	answers int
	asked   metrics
	refused metrics     // answered with "invalid argument": unsupported, or the handle is stale
	gone    nvml.Return // the answer that said the device is gone; SUCCESS if none did
	failed  nvml.Return // the last answer that explains nothing; SUCCESS if none did
}

// ask asks for one metric, unless the device is known not to have it or was found gone in
// this round.
func ask[T any](r *round, m metric, call func() (T, nvml.Return)) (T, bool) {
	var none T
	if r.gone != nvml.SUCCESS || r.absent.has(m) {
		return none, false
	}
	v, ret := call()
	r.asked.add(m)
	switch {
	case ret == nvml.SUCCESS:
		r.answers++
		return v, true
	case gone(ret):
		r.gone = ret
	case unsupported(ret):
		r.absent.add(m)
	case ret == nvml.ERROR_INVALID_ARGUMENT:
		r.refused.add(m)
	default:
		r.failed = ret
	}
	return none, false
}

// verdict returns SUCCESS if the device answered. Every call refuses a stale handle; if
// only some refuse, the device does not support those metrics.
func (r *round) verdict() nvml.Return {
	switch {
	case r.gone != nvml.SUCCESS:
		return r.gone
	case r.answers > 0:
		r.settle()
		return nvml.SUCCESS
	case r.refused != 0:
		return nvml.ERROR_GPU_NOT_FOUND
	}
	return r.failed
}

// settle records what a device that answered does not have: what it refused twice in a row.
func (r *round) settle() {
	*r.absent |= r.refused & *r.doubted
	*r.doubted = *r.doubted&^r.asked | r.refused
}
