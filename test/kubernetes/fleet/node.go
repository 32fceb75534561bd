package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/slice"
	"github.com/berth-gpu/berth/kubernetes/words"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// part is the label that tells the nodes of the load from those of the random claims.
const part = "fleet.berth.dev/part"

// What each device is: an H200 with four slots, as the daemon reports it.
const (
	deviceMemory  gpu.MiB = 143771
	deviceReserve gpu.MiB = 512
	contextMemory gpu.MiB = 600
	deviceSlots           = 4
)

// node is a node with a driver and no machine.
type node struct {
	name, part string
	publisher  *slice.Publisher
	controller *resourceslice.Controller
	devices    []gpu.Device

	mu     sync.Mutex
	failed map[string]bool // by UUID
	rand   *rand.Rand
}

// makeNodes makes the nodes in the API, and waits until kwok has made them ready.
func (f *fleet) makeNodes(ctx context.Context) error {
	random := 0
	if f.o.random > 0 {
		random = 4
	}
	for i := range f.o.nodes + random {
		n := &node{name: fmt.Sprintf("node-%04d", i), part: "load", failed: map[string]bool{}, rand: rand.New(rand.NewPCG(f.o.seed, uint64(i)))}
		if i >= f.o.nodes {
			n.name, n.part = fmt.Sprintf("random-%d", i-f.o.nodes), "random"
		}
		n.publisher = slice.New(n.name)
		for g := range f.o.gpus {
			n.devices = append(n.devices, gpu.Device{
				UUID:  fmt.Sprintf("GPU-%08x-%04x-4%03x-8%03x-%012x", n.rand.Uint32(), n.rand.Uint32N(1<<16), n.rand.Uint32N(1<<12), n.rand.Uint32N(1<<12), n.rand.Uint64N(1<<48)),
				Index: g, Name: "NVIDIA H200", Vendor: gpu.NVIDIA, Backend: "nvml", Driver: "580.95.05", PCI: fmt.Sprintf("0000:%02x:00.0", 0x1b+g),
				ComputeCapability: "9.0", MemoryTotal: deviceMemory, NUMANode: gpu.Some(g / 4),
			})
		}
		f.nodes = append(f.nodes, n)
	}
	amounts := corev1.ResourceList{"cpu": resource.MustParse("192"), "memory": resource.MustParse("2Ti"), "pods": resource.MustParse("110")}
	if err := each(16, f.nodes, func(n *node) error {
		_, err := f.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{part: n.part, "kubernetes.io/hostname": n.name, "berth.dev/gpu": "true"}},
			Status:     corev1.NodeStatus{Capacity: amounts, Allocatable: amounts},
		}, metav1.CreateOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("make the nodes: %w", err)
	}
	return f.until(ctx, "nodes that are ready", func() (int, int) { return f.seen.readyNodes(), len(f.nodes) })
}

// publish starts the controller of every node, which writes its slices as the helper
// of the driver does, and waits until the API server has them all. From then on, every
// node computes its devices again every ten seconds.
func (f *fleet) publish(ctx context.Context) error {
	if err := each(64, f.nodes, func(n *node) error {
		var devices []resourcev1.Device
		for range 30 { // until the publisher has seen what others use of the devices at most
			devices, _ = n.publisher.Next(time.Now(), n.facts(nil), shape)
		}
		var err error
		n.controller, err = resourceslice.StartController(ctx, resourceslice.Options{
			DriverName: words.Driver, KubeClient: f.client,
			Owner:        &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: n.name},
			Resources:    n.resources(devices),
			ErrorHandler: func(_ context.Context, err error, msg string) { f.say("slices of %s: %s: %v", n.name, msg, err) },
		})
		return err
	}); err != nil {
		return fmt.Errorf("publish the slices: %w", err)
	}
	if err := f.until(ctx, "devices in slices", func() (int, int) { return f.seen.devices(), len(f.nodes) * f.o.gpus }); err != nil {
		return err
	}
	go f.drive(ctx)
	return nil
}

// drive computes the devices of every node every ten seconds, one node after the other.
func (f *fleet) drive(ctx context.Context) {
	tick := time.NewTicker(10 * time.Second / time.Duration(len(f.nodes)))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.next(f.nodes[i%len(f.nodes)])
		}
	}
}

// shape says that the API server keeps everything that the driver writes.
var shape = slice.Shape{Consumable: true, Taints: true, Quarantine: resourcev1.DeviceTaintEffectNoExecute}

// next computes the devices of a node and publishes them if they changed, as the
// driver does every ten seconds and at every event of its daemon.
func (f *fleet) next(n *node) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	devices, changed := n.publisher.Next(time.Now(), n.facts(f.seen.claimsOf(n.name)), shape)
	f.computed.Add(1)
	if changed {
		f.changed.Add(1)
		n.controller.Update(n.resources(devices))
	}
	return changed
}

// resources returns devices as the pool of the node, the way the driver publishes them.
func (n *node) resources(devices []resourcev1.Device) *resourceslice.DriverResources {
	var pool resourceslice.Pool
	for _, some := range slice.Split(devices) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: some})
	}
	return &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{n.name: pool}}
}

// facts returns what the daemon of the node would report. Temperatures, power, what
// the pods use, and what processes outside of Kubernetes use are different every time,
// as measurements are.
func (n *node) facts(claims []*resourcev1.ResourceClaim) slice.Facts {
	f := slice.Facts{Context: contextMemory, Leases: n.leases(claims)}
	for _, d := range n.devices {
		s := api.Status{
			Device: d, State: gpu.Optimal, Health: gpu.Healthy, Multiplier: 1, Cause: "state", Slots: api.Slots{Capacity: deviceSlots, Usable: deviceSlots},
			Sample: &gpu.Sample{
				GPU: d.UUID, Time: time.Now(), State: gpu.Optimal, MemoryTotal: gpu.Some(d.MemoryTotal),
				Temperature: gpu.Some(gpu.Celsius(35 + 20*n.rand.Float64())), Utilization: gpu.Some(gpu.Percent(100 * n.rand.Float64())), Power: gpu.Some(gpu.Watts(120 + 500*n.rand.Float64())),
			},
		}
		a := api.DeviceAvailable{GPU: d.UUID, Available: d.MemoryTotal - deviceReserve, Total: d.MemoryTotal, Limit: d.MemoryTotal, Reserve: deviceReserve, Foreign: gpu.MiB(380 + n.rand.IntN(130)), State: gpu.Optimal, Health: gpu.Healthy}
		if n.failed[d.UUID] {
			s.State, s.StateCause, s.Health, s.Reason = gpu.Unavailable, "fault", gpu.Unhealthy, "Xid 79: the GPU has fallen off the bus"
			s.Trust = &api.Trust{Phase: "quarantine", Why: "Xid 79"}
			a.Available, a.State, a.Health, a.Reason = 0, gpu.Unavailable, gpu.Unhealthy, s.Reason
		}
		f.Status, f.Available = append(f.Status, s), append(f.Available, a)
	}
	return f
}

// leases returns the leases that the claims of the node have.
func (n *node) leases(claims []*resourcev1.ResourceClaim) []api.Lease {
	uuids := map[string]string{}
	for _, d := range n.devices {
		uuids[slice.DeviceName(d.UUID)] = d.UUID
	}
	var all []api.Lease
	for _, c := range claims {
		l := api.Lease{ID: string(c.UID), State: "active", Binding: "named"}
		for _, r := range c.Status.ReservedFor {
			l.Scope = append(l.Scope, "pod"+string(r.UID))
		}
		for _, s := range shares(c) {
			memory := gpu.MiB(s.memory >> 20)
			l.Parts = append(l.Parts, api.LeasePart{GPU: uuids[s.device], Memory: memory, Slots: int(s.slots), Measured: gpu.Some(gpu.MiB(float64(memory) * n.rand.Float64()))})
		}
		if len(l.Scope) > 0 && len(l.Parts) > 0 {
			all = append(all, l)
		}
	}
	return all
}

// each runs do for every item, at most width at a time, and returns one of the errors.
// It calls the pauses before every item.
func each[T any](width int, items []T, do func(T) error, pauses ...func()) error {
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		first error
		next  = make(chan T)
	)
	for range width {
		wait.Go(func() {
			for item := range next {
				if err := do(item); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
				}
			}
		})
	}
	for _, item := range items {
		for _, pause := range pauses {
			pause()
		}
		next <- item
	}
	close(next)
	wait.Wait()
	return first
}
