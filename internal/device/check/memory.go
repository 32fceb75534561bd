package check

import (
	"time"

	"github.com/berth-gpu/berth/internal/device/proof"
)

// Time limits of the patterns. A quick check of a slow device stops in time for a check
// of 20 seconds; a long one repeats the patterns.
const (
	quickMemory = 10 * time.Second
	longMemory  = 2 * time.Minute
	mostMemory  = 8 * time.Minute // of a long one, for its first round
	fewest      = 2               // patterns, whatever the time
)

// patterns writes patterns to all memory, and reads them again.
func (e *examiner) patterns() (proof.Step, error) {
	list, started := quickPatterns, time.Now()
	if e.ask.Kind == proof.Long {
		list = longPatterns()
	}
	for passes := 1; ; passes++ {
		p := list[(passes-1)%len(list)]
		if p.factor != 0 {
			p.mask ^= spread * uint32((passes-1)/len(list)) // each round has other words
		}
		wrong, err := e.pass(p, e.ask.Plant && passes == 1)
		took := time.Since(started)
		if err != nil || wrong.Count > 0 || e.enough(passes, len(list), took) {
			return proof.Memory(e.memory, passes, wrong), err
		}
		share := float64(passes) / float64(len(list))
		if e.ask.Kind == proof.Long {
			share = min(share, took.Seconds()/longMemory.Seconds())
		}
		e.progress(proof.StepMemory, share)
	}
}

// enough reports whether passes patterns of a list are enough after that time.
func (e *examiner) enough(passes, list int, took time.Duration) bool {
	switch {
	case passes < fewest:
		return false
	case e.ask.Kind == proof.Long:
		return took >= mostMemory || passes >= list && took >= longMemory
	}
	return passes >= list || took >= quickMemory
}

// pass writes one pattern and reads it again. If plant is set, it flips one bit in the
// middle of the memory in between.
func (e *examiner) pass(p pattern, plant bool) (proof.Wrong, error) {
	if err := e.card.fill(e.pieces, p); err != nil {
		return proof.Wrong{}, err
	}
	if plant {
		if err := e.flip(); err != nil {
			return proof.Wrong{}, err
		}
	}
	return e.card.check(e.pieces, p)
}

// planted is the bit that flip flips.
const planted = 1 << 17

// flip flips one bit in the middle of the memory.
func (e *examiner) flip() error {
	last := e.pieces[len(e.pieces)-1]
	middle := (last.first + last.words) / 2
	for _, one := range e.pieces {
		if middle >= one.first && middle < one.first+one.words {
			at, word := one.at+4*address(middle-one.first), make([]uint32, 1)
			if err := e.card.CopyOut(word, at); err != nil {
				return err
			}
			word[0] ^= planted
			return e.card.CopyIn(at, word)
		}
	}
	return nil
}
