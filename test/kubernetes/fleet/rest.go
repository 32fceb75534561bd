package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// rest is what happened while nothing changed.
type rest struct {
	lasted   time.Duration
	computed int64 // how often a driver computed its devices anew
	wanted   int64 // how often it found that they had changed
	writes   int   // of slices
	requests map[string]float64
	all      float64  // requests about anything
	most     []string // what most of them are about
	busy     map[string]time.Duration
}

// settle is longer than the delay after which a controller looks at its slices again.
const settle = 35 * time.Second

// atRest watches the cluster while its pods run. Every driver computes its devices
// every ten seconds, from measurements that change, and must not write any of them.
func (f *fleet) atRest(ctx context.Context) error {
	if f.o.rest == 0 {
		return nil
	}
	if err := f.until(ctx, "pods that run", func() (int, int) {
		return f.seen.count(f.seen.keys("claims"), func(t *times) time.Time { return t.running }), f.o.pods
	}); err != nil {
		return err
	}
	f.say("waiting %s, in which every controller looks at its slices once more, then resting for %s", settle, f.o.rest)
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	r := rest{requests: map[string]float64{}, busy: map[string]time.Duration{}}
	all, err := requests(ctx, f.client)
	if err != nil {
		return err
	}
	began, writes, before := time.Now(), f.seen.written(), f.usage.mark("")
	computed, changed := f.computed.Load(), f.changed.Load()
	if err := sleep(ctx, f.o.rest); err != nil {
		return err
	}
	r.lasted, r.writes = time.Since(began), f.seen.written()-writes
	r.computed, r.wanted = f.computed.Load()-computed, f.changed.Load()-changed
	after := f.usage.mark("at rest")
	f.usage.marks = slices.DeleteFunc(f.usage.marks, func(m mark) bool { return m.name == "" })
	for p, a := range after.of {
		r.busy[p] = a.busy - before.of[p].busy
	}
	now, err := requests(ctx, f.client)
	if err != nil {
		return err
	}
	for k := range now {
		now[k] -= all[k]
		r.all += now[k]
		if k.resource == "resourceslices" {
			r.requests[k.verb] += now[k]
		}
	}
	kinds := slices.SortedFunc(maps.Keys(now), func(a, b asked) int {
		return cmp.Or(cmp.Compare(now[b], now[a]), cmp.Compare(a.resource, b.resource), cmp.Compare(a.verb, b.verb))
	})
	for _, k := range kinds[:min(len(kinds), 4)] {
		if now[k] > 0 {
			r.most = append(r.most, fmt.Sprintf("%s %s %.0f", k.verb, cmp.Or(k.resource, "of a page"), now[k]))
		}
	}
	f.result.rest = &r
	f.say("%d computations in %s: %d slices written", r.computed, round(r.lasted), r.writes)
	if r.writes > 0 || r.wanted > 0 {
		f.fail("at rest %d slices were written and %d computations asked for it; both must be 0", r.writes, r.wanted)
	}
	return nil
}

// sleep waits, unless the program ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
