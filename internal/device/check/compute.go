package check

import (
	"time"

	"github.com/berth-gpu/berth/internal/device/proof"
)

// How long the device computes.
const (
	quickCompute = 2500 * time.Millisecond
	longCompute  = time.Minute
	warmUp       = time.Second // before the clock counts
)

const (
	chainRounds = 4096 // steps that depend on each other
	launches    = 16   // computations that are started together
)

// compute lets every multiprocessor compute a chain that this process computes too, and
// compares the results. It reads the clock of the device while the device is busy.
func (e *examiner) compute() (proof.Step, error) {
	units, err := e.card.Units()
	if err != nil {
		return proof.Step{}, err
	}
	on, each := e.pieces[0], min(units*blocksPerUnit*threads, int(e.pieces[0].words)/threads*threads)
	together := min(launches, int(on.words)/each)
	results := make([]uint32, together*each)
	long := quickCompute
	if e.ask.Kind == proof.Long {
		long = longCompute
	}
	total, started := 0, time.Now()
	for seed := uint32(1); ; seed++ {
		for i := range together {
			if err := e.card.chain(on.at+4*address(i*each), each/threads, chainRounds, seed); err != nil {
				return proof.Step{}, err
			}
		}
		if time.Since(started) >= warmUp {
			e.readClock()
		}
		var known [threads]uint32
		for i := range known {
			known[i] = chainOf(uint32(i), chainRounds, seed)
		}
		err := e.card.Wait()
		if err == nil {
			err = e.card.CopyOut(results, on.at)
		}
		if err != nil {
			return proof.Step{}, err
		}
		total += len(results)
		wrong, took := compare(results, func(i int) uint32 { return known[i%threads] }), time.Since(started)
		if wrong.Count > 0 || took >= long {
			return proof.Compute(total, wrong), nil
		}
		if seed%16 == 0 {
			e.progress(proof.StepCompute, took.Seconds()/long.Seconds())
		}
	}
}

// readClock keeps the reading with the highest clock, because the device waits for this
// process during some readings.
func (e *examiner) readClock() {
	if e.gauges == nil {
		return
	}
	if c := e.gauges.Clocks(); c.SM.Or(0) >= e.clocks.SM.Or(0) {
		e.clocks = c
	}
}
