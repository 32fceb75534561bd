package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// load is what one load of pods took.
type load struct {
	name        string
	pods        int
	perSecond   float64                  // asked for; 0: all at once
	created     time.Duration            // until the last was created
	elapsed     time.Duration            // from the first create to the last binding
	bound       []time.Duration          // from create to bound, sorted
	allocated   []time.Duration          // from create to allocated, sorted; none without claims
	allocatedIn time.Duration            // from the first create to the last allocation
	busy        map[string]time.Duration // processor time, by process
}

// rate returns how many pods were bound in a second.
func (l load) rate() float64 { return float64(l.pods) / l.elapsed.Seconds() }

// quantile returns the smallest of the sorted times that at least this share of them
// does not exceed.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(share*float64(len(sorted))+0.9999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// setUp makes the nodes, the slices, and what pods need.
func (f *fleet) setUp(ctx context.Context) error {
	f.say("making %d nodes of %d GPUs each", f.o.nodes, f.o.gpus)
	if err := f.makeNodes(ctx); err != nil {
		return err
	}
	f.say("%d nodes are ready; publishing their slices with one controller each", len(f.nodes))
	began := time.Now()
	if err := f.publish(ctx); err != nil {
		return err
	}
	f.result.published = time.Since(began)
	f.say("%d devices are published after %s", f.seen.devices(), round(f.result.published))
	f.usage.mark("nodes and slices")
	return f.makeKinds(ctx)
}

// bursts creates all pods at once, first without claims and then with them. Those with
// claims stay.
func (f *fleet) bursts(ctx context.Context) error {
	for _, with := range []bool{false, true} {
		name := "plain"
		if with {
			name = "claims"
		}
		l, err := f.put(ctx, name, f.o.pods, 0, with)
		if err != nil {
			return err
		}
		f.result.loads = append(f.result.loads, l)
		f.usage.mark(fmt.Sprintf("%d pods, %s", f.o.pods, kindOf(with)))
		if !with {
			if err := f.remove(ctx, name); err != nil {
				return err
			}
			f.usage.mark("after they were deleted")
		}
	}
	return nil
}

// pace creates pods at half the rate that the scheduler reached with claims, first
// without claims and then with them: what one pod waits for when there is no queue.
func (f *fleet) pace(ctx context.Context) error {
	if f.o.paced == 0 {
		return nil
	}
	rate := min(f.result.loads[1].rate()/2, 20)
	for _, with := range []bool{false, true} {
		name := "paced-plain"
		if with {
			name = "paced-claims"
		}
		l, err := f.put(ctx, name, f.o.paced, rate, with)
		if err != nil {
			return err
		}
		f.result.loads = append(f.result.loads, l)
		if err := f.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// put creates pods, all at once or some each second, and waits until they are bound.
// The same seed makes the same pods.
func (f *fleet) put(ctx context.Context, namespace string, pods int, perSecond float64, claims bool) (load, error) {
	how := "at once"
	if perSecond > 0 {
		how = fmt.Sprintf("%.1f a second", perSecond)
	}
	f.say("creating %d pods %s, %s", pods, kindOf(claims), how)
	l := load{name: fmt.Sprintf("%s, %s", kindOf(claims), how), pods: pods, perSecond: perSecond, busy: map[string]time.Duration{}}
	r := rand.New(rand.NewPCG(f.o.seed, 0))
	type pod struct{ name, template string }
	var all []pod
	var keys []string
	for i := range pods {
		k := choose(r)
		p := pod{name: fmt.Sprintf("%s-%04d", k.name, i)}
		if claims {
			p.template = k.name
		}
		all, keys = append(all, p), append(keys, namespace+"/"+p.name)
	}
	before, began := f.usage.mark(""), time.Now()
	failed := make(chan error, 1)
	go func() {
		i := -1
		err := each(16, all, func(p pod) error {
			return f.create(ctx, namespace, p.name, "load", p.template)
		}, func() {
			if i++; perSecond > 0 {
				time.Sleep(time.Until(began.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))))
			}
		})
		l.created = time.Since(began)
		failed <- err
	}()
	if err := f.until(ctx, "pods that are bound", func() (int, int) {
		return f.seen.count(keys, func(t *times) time.Time { return t.bound }), pods
	}); err != nil {
		return l, err
	}
	if err := <-failed; err != nil {
		return l, err
	}
	after := f.usage.mark("")
	f.usage.marks = slices.DeleteFunc(f.usage.marks, func(m mark) bool { return m.name == "" })
	for p, a := range after.of {
		l.busy[p] = a.busy - before.of[p].busy
	}
	for _, t := range f.seen.times(keys) {
		l.bound = append(l.bound, t.bound.Sub(t.sent))
		l.elapsed = max(l.elapsed, t.bound.Sub(began))
		if claims {
			l.allocated = append(l.allocated, t.allocated.Sub(t.sent))
			l.allocatedIn = max(l.allocatedIn, t.allocated.Sub(began))
		}
	}
	slices.Sort(l.bound)
	slices.Sort(l.allocated)
	f.say("%d pods are created after %s and bound after %s: %.1f a second, p50 %s, p99 %s", pods, round(l.created), round(l.elapsed), l.rate(), round(quantile(l.bound, 0.5)), round(quantile(l.bound, 0.99)))
	return l, nil
}

func kindOf(claims bool) string {
	if claims {
		return "with claims"
	}
	return "without claims"
}

// round leaves three digits.
func round(d time.Duration) time.Duration {
	for unit := time.Microsecond; ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}
