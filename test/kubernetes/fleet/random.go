package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/berth-gpu/berth/kubernetes/words"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// random is what became of the random claims.
type random struct {
	claims, fitting, allocated, never int
	changes                           int // how often the sums were looked at
	most                              int // pods that ran at a time
	wrong                             int // claims that consume something else than they asked for
	elapsed                           time.Duration
}

// wish is what a random claim asks for, and how long its pod runs.
type wish struct {
	name   string
	memory *resource.Quantity // nil: not asked for
	slots  *resource.Quantity
	count  int64
	runs   time.Duration
	want   amount // what the claim must consume of each device
	fits   bool   // on an empty node
}

// randomWish makes a wish. One in seven cannot be met by any device.
func randomWish(r *rand.Rand, i int) wish {
	w := wish{name: fmt.Sprintf("random-%04d", i), count: 1, runs: time.Duration(200+r.IntN(2800)) * time.Millisecond}
	switch n := r.IntN(100); {
	case n < 55: // bytes, so that nearly none is a multiple of the step
		w.memory = resource.NewQuantity(r.Int64N(40<<30), resource.BinarySI)
	case n < 80:
		w.memory = resource.NewQuantity(40<<30+r.Int64N(99<<30), resource.BinarySI)
	case n < 90:
		w.memory = resource.NewQuantity(141<<30+r.Int64N(200<<30), resource.BinarySI)
	}
	switch n := r.IntN(100); {
	case n < 35:
		w.slots = resource.NewQuantity(r.Int64N(deviceSlots+1), resource.DecimalSI)
	case n < 40:
		w.slots = resource.NewQuantity(deviceSlots+1+r.Int64N(3), resource.DecimalSI)
	}
	if r.IntN(5) == 0 {
		w.count = 2 + r.Int64N(2)
	}
	return w
}

// consumed returns what the API says that a request consumes of a capacity: the
// default if it asks for nothing, at least the minimum, and whole steps above it.
func consumed(asked *resource.Quantity, c resourcev1.DeviceCapacity) (int64, bool) {
	p := c.RequestPolicy
	if asked == nil {
		return p.Default.Value(), true
	}
	low, step := p.ValidRange.Min.Value(), p.ValidRange.Step.Value()
	n := max(asked.Value(), low)
	n = low + (n-low+step-1)/step*step
	return n, n <= p.ValidRange.Max.Value() && n <= c.Value.Value()
}

// judge says what the claim of a wish must consume, and whether a device has that.
func (w *wish) judge(d resourcev1.Device) {
	memory, memoryFits := consumed(w.memory, d.Capacity[words.Memory])
	slots, slotsFit := consumed(w.slots, d.Capacity[words.Slots])
	w.want, w.fits = amount{memory, slots}, memoryFits && slotsFit
}

// request returns the request of a claim.
func (w *wish) request() *resourcev1.ExactDeviceRequest {
	asks := map[resourcev1.QualifiedName]resource.Quantity{}
	if w.memory != nil {
		asks[words.Memory] = *w.memory
	}
	if w.slots != nil {
		asks[words.Slots] = *w.slots
	}
	r := &resourcev1.ExactDeviceRequest{DeviceClassName: words.Driver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: w.count}
	if len(asks) > 0 {
		r.Capacity = &resourcev1.CapacityRequirements{Requests: asks}
	}
	return r
}

// randomClaims makes many different claims for few devices. Their pods end some time
// after they are bound, so every claim that fits an empty device must be allocated in
// the end, with exactly what it asked for, and no other.
func (f *fleet) randomClaims(ctx context.Context) error {
	if f.o.random == 0 {
		return nil
	}
	var wishes []*wish
	by := map[string]*wish{}
	result := random{claims: f.o.random}
	r := rand.New(rand.NewPCG(f.o.seed, 2<<32))
	device := f.seen.anyDevice("random-0")
	for i := range f.o.random {
		w := randomWish(r, i)
		w.judge(device)
		if w.fits {
			result.fitting++
		}
		wishes, by["random/"+w.name] = append(wishes, &w), &w
	}
	f.say("%d random claims for 4 nodes of %d GPUs; %d fit a device", f.o.random, f.o.gpus, result.fitting)
	var wrong []string
	f.seen.mu.Lock()
	looks := f.seen.sums.looks
	f.seen.check = func(pod string, c *resourcev1.ResourceClaim) {
		w, got := by[pod], shares(c)
		if w == nil {
			return
		}
		ok := w.fits && int64(len(got)) == w.count
		for _, s := range got {
			ok = ok && s.amount == w.want && s.pool == got[0].pool
		}
		if !ok {
			wrong = append(wrong, fmt.Sprintf("claim of %s: %d devices with %+v wanted (fits: %t), but it has %+v", pod, w.count, w.want, w.fits, got))
		}
	}
	f.seen.mu.Unlock()
	began := time.Now()
	if err := each(8, wishes, func(w *wish) error {
		if err := f.makeTemplate(ctx, "random", w.name, "", w.request()); err != nil {
			return err
		}
		return f.create(ctx, "random", w.name, "random", w.name)
	}); err != nil {
		return err
	}
	if err := f.until(ctx, "random claims that were allocated, and their pods have ended", func() (int, int) {
		running := f.endSome(ctx, wishes)
		result.most = max(result.most, running)
		return f.countEnded(wishes), result.fitting
	}); err != nil {
		f.fail("%v", err)
	}
	result.elapsed = time.Since(began)
	if err := f.until(ctx, "pods whose claims do not fit, and that the scheduler has refused", func() (int, int) {
		return f.refused(ctx), f.o.random - result.fitting
	}); err != nil {
		return err
	}
	f.seen.mu.Lock()
	result.changes = f.seen.sums.looks - looks
	for key, w := range by {
		switch t := f.seen.of(key); {
		case !t.allocated.IsZero():
			result.allocated++
		case !w.fits:
			result.never++
		}
	}
	f.seen.check, result.wrong = nil, len(wrong)
	f.seen.mu.Unlock()
	f.result.random = &result
	for _, w := range wrong[:min(len(wrong), 5)] {
		f.fail("%s", w)
	}
	if result.allocated != result.fitting {
		f.fail("%d random claims fit a device, and %d were allocated", result.fitting, result.allocated)
	}
	f.say("%d were allocated and %d never, in %s", result.allocated, result.never, round(result.elapsed))
	return f.remove(ctx, "random")
}

// endSome deletes the pods that have run long enough, and returns how many run.
func (f *fleet) endSome(ctx context.Context, wishes []*wish) (running int) {
	var over []*wish
	f.seen.mu.Lock()
	for _, w := range wishes {
		t := f.seen.of("random/" + w.name)
		if t.bound.IsZero() || !t.deleting.IsZero() {
			continue
		}
		running++
		if time.Since(t.bound) > w.runs {
			over = append(over, w)
		}
	}
	f.seen.mu.Unlock()
	if err := each(8, over, func(w *wish) error {
		err := f.client.CoreV1().Pods("random").Delete(ctx, w.name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}); err != nil {
		f.say("  delete a pod: %v", err)
	}
	return running
}

// countEnded counts the claims that were allocated and whose pods have ended.
func (f *fleet) countEnded(wishes []*wish) (ended int) {
	f.seen.mu.Lock()
	defer f.seen.mu.Unlock()
	for _, w := range wishes {
		if t := f.seen.of("random/" + w.name); !t.allocated.IsZero() && !t.gone.IsZero() {
			ended++
		}
	}
	return ended
}

// refused counts the pods that the scheduler has tried and not placed.
func (f *fleet) refused(ctx context.Context) (refused int) {
	pods, err := f.client.CoreV1().Pods("random").List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0
	}
	for _, p := range pods.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				refused++
			}
		}
	}
	return refused
}
