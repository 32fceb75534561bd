package check

import (
	"time"

	"github.com/berth-gpu/berth/internal/device/cuda"
	"github.com/berth-gpu/berth/internal/device/proof"
)

type address = cuda.Address

// copyWords is the number of words in one copy: 128 MiB.
const copyWords = 32 << 20

// The number of copies. The best time counts: others may use the link too.
const (
	quickCopies = 20
	longCopies  = 200
)

// sent and fetched are the patterns to copy.
var (
	sent    = pattern{spread, 0x5A17C0DE}
	fetched = pattern{spread, 0x0FF1CE00}
)

// copyIn copies words to the device. The device itself reads them again, so that a fault
// on the way back does not count here.
func (e *examiner) copyIn() (proof.Step, error) {
	host, on, err := e.buffers()
	if err != nil {
		return proof.Step{}, err
	}
	for i := range host {
		host[i] = sent.at(uint64(i))
	}
	rate, err := e.copies(proof.StepCopyIn, len(host), func() error { return e.card.CopyIn(on.at, host) })
	if err != nil {
		return proof.Step{}, err
	}
	wrong, err := e.card.check([]piece{on}, sent)
	return proof.Copy(proof.StepCopyIn, rate, e.link, wrong), err
}

// copyOut copies words, which the device has written itself, from the device.
func (e *examiner) copyOut() (proof.Step, error) {
	host, on, err := e.buffers()
	if err == nil {
		err = e.card.fill([]piece{on}, fetched)
	}
	if err != nil {
		return proof.Step{}, err
	}
	clear(host)
	rate, err := e.copies(proof.StepCopyOut, len(host), func() error { return e.card.CopyOut(host, on.at) })
	if err != nil {
		return proof.Step{}, err
	}
	return proof.Copy(proof.StepCopyOut, rate, e.link, compare(host, func(i int) uint32 { return fetched.at(uint64(i)) })), nil
}

// buffers returns memory on both sides.
func (e *examiner) buffers() ([]uint32, piece, error) {
	on := e.pieces[0]
	on.words, on.first = min(on.words, copyWords), 0
	if e.host == nil {
		host, err := e.card.HostMemory(int(on.words))
		if err != nil {
			return nil, on, err
		}
		e.host = host
	}
	return e.host, on, nil
}

// copies copies repeatedly, and returns the best rate in GB/s. In between, while the link
// is busy, it reads the state of the link.
func (e *examiner) copies(name proof.Name, words int, once func() error) (float64, error) {
	count, best := quickCopies, 0.0
	if e.ask.Kind == proof.Long {
		count = longCopies
	}
	for i := range count {
		started := time.Now()
		if err := once(); err != nil {
			return 0, err
		}
		best = max(best, float64(4*words)/1e9/time.Since(started).Seconds())
		if i == count/2 && e.gauges != nil {
			e.link = e.gauges.Link()
		}
		if i%100 == 99 {
			e.progress(name, float64(i+1)/float64(count))
		}
	}
	return best, nil
}

// compare counts the words that differ from want.
func compare(words []uint32, want func(i int) uint32) (wrong proof.Wrong) {
	for i, found := range words {
		if expected := want(i); found != expected {
			if wrong.Count == 0 {
				wrong.At, wrong.Expected, wrong.Found = 4*uint64(i), expected, found
			}
			wrong.Count++
		}
	}
	return wrong
}
