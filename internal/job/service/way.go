package service

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/words"
)

// avoidFor is for how long auto leaves out a way that failed.
const avoidFor = time.Hour

// coldStart is how many times as long as a later start a first one may take: it reads from
// the disk what later ones find in memory. With PyTorch and 12 GiB on an H200 it was three.
const coldStart = 4

// Took adds how long something took to what is known of it. The mean is one of the last
// four or so. A first time that took longer than the second is left out from then on: see
// coldStart.
func Took(t *api.ServiceTime, d time.Duration) {
	t.Count, t.Last = t.Count+1, d.Seconds()
	if t.Count == 2 && t.Last < t.Seconds {
		t.Seconds = t.Last
		return
	}
	t.Seconds += (t.Last - t.Seconds) / float64(min(t.Count, 4))
}

// Choose returns the way in which a service is sent away, and why that one, in words.
// Unparkable is why it cannot be parked, or nil if it can; failed has when a way failed
// last.
//
// Auto takes the way whose next switch is shortest: to leave and to come back. One that
// was never tried is tried first, because nobody knows how long it takes; so is a second
// start where a first one, but for coldStart, may be the shortest.
func Choose(s *Spec, took *api.ServiceTimes, unparkable error, failed map[Way]time.Time, now time.Time) (Way, string) {
	barred := map[Way]string{}
	if unparkable != nil {
		barred[Park] = fmt.Sprintf("it cannot be parked: %v", unparkable)
	}
	if len(s.Sleep) == 0 || len(s.Wake) == 0 {
		barred[Sleep] = "its settings have no calls for sleep and wake"
	}
	switch {
	case s.Away == Stop:
		return Stop, "its settings say so"
	case s.Away != Auto && s.Away != "" && barred[s.Away] != "":
		return Stop, barred[s.Away]
	case s.Away == Park || s.Away == Sleep:
		return s.Away, "its settings say so"
	}
	times := timesOf(took)
	best, least, why := Stop, times[Stop][0].Seconds+times[Stop][1].Seconds, ""
	if times[Stop][1].Count == 1 {
		least /= coldStart
	}
	for _, way := range []Way{Sleep, Park} {
		switch switching := times[way][0].Seconds + times[way][1].Seconds; {
		case barred[way] != "":
			why = barred[way]
		case now.Before(failed[way].Add(avoidFor)):
			// it failed a short time ago
		case times[way][0].Count == 0 || times[way][1].Count == 0:
			return way, "nobody knows yet how long that takes"
		case switching < least:
			best, least = way, switching
		}
	}
	if len(barred) == 2 {
		return Stop, why
	}
	if best == Stop && times[Stop][1].Count == 1 {
		return Stop, "its second start may be shorter than its first was"
	}
	return best, "to leave and come back takes " + words.Duration(time.Duration(least*float64(time.Second))) + " in this way, the shortest"
}

// timesOf returns how long it takes to leave and to come back, in each way.
func timesOf(took *api.ServiceTimes) map[Way][2]api.ServiceTime {
	return map[Way][2]api.ServiceTime{Park: {took.Park, took.Resume}, Sleep: {took.Sleep, took.Wake}, Stop: {took.Stop, took.Start}}
}

// Switching returns how long it takes a service to leave and to come back: in the shortest
// of the ways that it may take and has taken, or else as long as its start takes. Zero
// means that nothing is known.
func (s *Spec) Switching(took *api.ServiceTimes) time.Duration {
	least := 0.0
	for way, t := range timesOf(took) {
		switching := t[0].Seconds + t[1].Seconds
		if t[0].Count > 0 && t[1].Count > 0 && (s.Away == way || s.Away == Auto || s.Away == "") && (least == 0 || switching < least) {
			least = switching
		}
	}
	if least == 0 {
		least = took.Start.Seconds
	}
	return time.Duration(least * float64(time.Second))
}
