package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/berth-gpu/berth/kubernetes/slice"
	resourcev1 "k8s.io/api/resource/v1"
)

// taints is what happened when many devices failed at once.
type taints struct {
	devices, nodes, pods int
	replaced             int           // claims whose pods name a second one that Kubernetes made; not counted as users
	others               int           // pods on other devices that were deleted, too
	published            time.Duration // until the last slice has its taint
	half, deleted        time.Duration // until half of the pods, and the last, are deleted by the controller
	gone                 time.Duration // until the last pod and its claim are gone
	healed               time.Duration // from the recovery of all devices to the last slice without a taint
}

// taintMany fails many devices at once, and waits until the pods on them, and no
// others, are evicted. Then the devices recover.
func (f *fleet) taintMany(ctx context.Context) error {
	if f.o.taints == 0 {
		return nil
	}
	fails, victims, replaced := f.chooseVictims()
	t := taints{nodes: len(fails), pods: len(victims), replaced: replaced}
	for _, uuids := range fails {
		t.devices += len(uuids)
	}
	f.say("%d devices on %d nodes fail at once; %d pods have claims on them", t.devices, t.nodes, t.pods)
	began := time.Now()
	for n, uuids := range fails {
		n.mu.Lock()
		for _, uuid := range uuids {
			n.failed[uuid] = true
		}
		n.mu.Unlock()
		f.next(n)
	}
	if err := f.until(ctx, "tainted devices", func() (int, int) { return f.seen.tainted(resourcev1.DeviceTaintEffectNoExecute), t.devices }); err != nil {
		return err
	}
	t.published = time.Since(began)
	if err := f.until(ctx, "pods that are evicted", func() (int, int) {
		return f.seen.count(victims, func(t *times) time.Time { return t.claimGone }), len(victims)
	}); err != nil {
		return err
	}
	var deleted []time.Duration
	for _, v := range f.seen.times(victims) {
		deleted = append(deleted, v.deleting.Sub(began))
		t.gone = max(t.gone, v.gone.Sub(began), v.claimGone.Sub(began))
	}
	slices.Sort(deleted)
	t.half, t.deleted = quantile(deleted, 0.5), quantile(deleted, 1)
	f.say("the taints are published after %s, the last of %d pods is deleted after %s, and gone after %s", round(t.published), t.pods, round(t.deleted), round(t.gone))
	if t.others = f.seen.deleted("claims") - len(victims); t.others != 0 {
		f.fail("%d pods on healthy devices were evicted, too", t.others)
	}
	f.say("the devices recover")
	began = time.Now()
	for n := range fails {
		n.mu.Lock()
		clear(n.failed)
		n.mu.Unlock()
		f.next(n)
	}
	if err := f.until(ctx, "devices without a taint", func() (int, int) {
		return t.devices - f.seen.tainted(resourcev1.DeviceTaintEffectNoExecute), t.devices
	}); err != nil {
		return err
	}
	t.healed = time.Since(began)
	f.result.taints = &t
	return nil
}

// chooseVictims returns devices that have claims, by UUID, and the pods that have them.
func (f *fleet) chooseVictims() (fails map[*node][]string, pods []string, replaced int) {
	used, replaced := f.seen.users()
	type candidate struct {
		node *node
		uuid string
		id   deviceID
	}
	var all []candidate
	for _, n := range f.nodes {
		for _, d := range n.devices {
			if id := (deviceID{n.name, slice.DeviceName(d.UUID)}); len(used[id]) > 0 {
				all = append(all, candidate{n, d.UUID, id})
			}
		}
	}
	r := rand.New(rand.NewPCG(f.o.seed, 1<<32))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fails = map[*node][]string{}
	for _, c := range all[:min(f.o.taints, len(all))] {
		fails[c.node] = append(fails[c.node], c.uuid)
		pods = append(pods, used[c.id]...)
	}
	slices.Sort(pods)
	return fails, slices.Compact(pods), replaced
}

// clear removes the pods with claims.
func (f *fleet) clear(ctx context.Context) error { return f.remove(ctx, "claims") }

// fail notes that something does not hold that must.
func (f *fleet) fail(format string, a ...any) {
	f.result.failures = append(f.result.failures, fmt.Sprintf(format, a...))
	f.say("FAILED: "+format, a...)
}
