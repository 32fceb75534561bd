package trial

import (
	"time"

	"github.com/berth-gpu/berth/internal/proof"
)

// How long the patterns take. A quick check of a slow device stops in time for a
// check of 20 seconds; a long one repeats the patterns.
const (
	quickMemory = 10 * time.Second
	longMemory  = 2 * time.Minute
	mostMemory  = 8 * time.Minute // of a long one, for its first round
	fewest      = 2               // patterns, whatever the time
)

// patterns writes patterns to all memory, and reads them again.
func (t *trial) patterns() (proof.Step, error) {
	list, started := quickPatterns, time.Now()
	if t.ask.Kind == proof.Long {
		list = longPatterns()
	}
	for passes := 1; ; passes++ {
		p := list[(passes-1)%len(list)]
		if p.factor != 0 {
			p.mask ^= spread * uint32((passes-1)/len(list)) // each round has other words
		}
		wrong, err := t.pass(p, t.ask.Plant && passes == 1)
		took := time.Since(started)
		if err != nil || wrong.Count > 0 || t.enough(passes, len(list), took) {
			return proof.Memory(t.memory, passes, wrong), err
		}
		share := float64(passes) / float64(len(list))
		if t.ask.Kind == proof.Long {
			share = min(share, took.Seconds()/longMemory.Seconds())
		}
		t.progress(proof.StepMemory, share)
	}
}

// enough reports whether so many patterns, of a list, in that time are enough.
func (t *trial) enough(passes, list int, took time.Duration) bool {
	switch {
	case passes < fewest:
		return false
	case t.ask.Kind == proof.Long:
		return took >= mostMemory || passes >= list && took >= longMemory
	}
	return passes >= list || took >= quickMemory
}

// pass writes one pattern and reads it again. If it plants an error, it flips one
// bit in the middle of the memory in between.
func (t *trial) pass(p pattern, plant bool) (proof.Wrong, error) {
	if err := t.card.fill(t.pieces, p); err != nil {
		return proof.Wrong{}, err
	}
	if plant {
		if err := t.flip(); err != nil {
			return proof.Wrong{}, err
		}
	}
	return t.card.check(t.pieces, p)
}

// planted is the bit that flip flips.
const planted = 1 << 17

// flip flips one bit in the middle of the memory.
func (t *trial) flip() error {
	last := t.pieces[len(t.pieces)-1]
	middle := (last.first + last.words) / 2
	for _, one := range t.pieces {
		if middle >= one.first && middle < one.first+one.words {
			at, word := one.at+4*address(middle-one.first), make([]uint32, 1)
			if err := t.card.CopyOut(word, at); err != nil {
				return err
			}
			word[0] ^= planted
			return t.card.CopyIn(at, word)
		}
	}
	return nil
}
