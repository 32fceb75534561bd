package nvml

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// Scan lists the GPUs, then the MIG instances, which are numbered after them. It lists a
// device that hangs during the scan if the device was there before. It leaves out a
// device that berth may not use, unless that is true of all of them.
func (b *Backend) Scan(ctx context.Context) ([]device.Device, error) {
	count, err := b.count(ctx)
	if err != nil {
		return nil, err
	}
	found, err := b.probeAll(ctx, count)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, c *card) int {
		return cmp.Compare(rank(a), rank(c))
	})
	_, _ = b.linking.run(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.link(ctx, found)
	})
	b.connect(found)
	list := make([]device.Device, len(found))
	gpus := 0
	for i, c := range found {
		if c.slice == nil {
			gpus++
		} else {
			c.revise(func(d *gpu.Device) { d.Index = count + i - gpus })
		}
		list[i] = c
	}
	return list, nil
}

// rank sorts GPUs before instances.
func rank(c *card) int {
	if c.slice != nil {
		return 1
	}
	return 0
}

// count returns the number of GPUs that the driver has.
func (b *Backend) count(ctx context.Context) (int, error) {
	return b.counting.run(ctx, func(ctx context.Context) (int, error) {
		s, err := b.lib.enter(ctx)
		if err != nil {
			return 0, err
		}
		defer b.lib.leave()
		n, ret := s.api.DeviceGetCount()
		switch ret {
		case nvml.SUCCESS:
			return n, nil
		case nvml.ERROR_UNINITIALIZED:
			b.lib.invalidate(s)
		}
		return 0, failure("count the GPUs", ret)
	})
}

// probeAll probes every index at the same time. If there are devices and none can be
// used, it returns their error.
func (b *Backend) probeAll(ctx context.Context, count int) ([]*card, error) {
	b.mu.Lock()
	for len(b.probes) < count {
		b.probes = append(b.probes, new(errand[[]*card]))
		b.seen = append(b.seen, nil)
	}
	probes := b.probes[:count]
	b.mu.Unlock()

	found := make([][]*card, count)
	errs := make([]error, count)
	var wg sync.WaitGroup
	for i, probe := range probes {
		wg.Go(func() {
			found[i], errs[i] = probe.run(ctx, func(ctx context.Context) ([]*card, error) {
				return b.probe(ctx, i)
			})
			if errors.Is(errs[i], device.ErrHung) {
				b.mu.Lock()
				found[i] = b.seen[i]
				b.mu.Unlock()
			}
		})
	}
	wg.Wait()

	all := slices.Concat(found...)
	if len(all) > 0 {
		return all, nil
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, device.ErrLost) {
			return nil, err
		}
	}
	return nil, nil
}

// probe reads one index of the driver's list: a GPU and the instances in it. It does not
// read known properties again.
func (b *Backend) probe(ctx context.Context, index int) ([]*card, error) {
	s, err := b.lib.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer b.lib.leave()
	h, ret := s.api.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return nil, b.saw(index, nil, failure("find a GPU", ret))
	}
	uuid, ret := h.GetUUID()
	if ret != nvml.SUCCESS {
		return nil, b.saw(index, nil, failure("identify a GPU", ret))
	}
	c := b.adopt(uuid, func() *card { return b.identify(s, h, uuid) })
	instances, err := b.instances(s, h, c)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if before := b.seen[index]; slices.Contains(before, c) {
			return before, nil // a device keeps its instances until the driver says that it has others
		}
		return nil, err
	}
	var uuids []string
	for _, in := range instances {
		uuids = append(uuids, in.uuid)
	}
	limit := powerLimit(h) // can be changed while the machine runs
	var total gpu.MiB
	if c.Describe().MemoryTotal == 0 { // the driver did not say: without it, the GPU has no memory to lease
		if m, ret := h.GetMemoryInfo(); ret == nvml.SUCCESS {
			total = gpu.MiBOf(m.Total)
		}
	}
	c.revise(func(d *gpu.Device) {
		d.MemoryTotal = max(d.MemoryTotal, total)
		if !slices.Equal(d.Instances, uuids) {
			c.recut.Store(true)
		}
		d.Index, d.PowerLimit, d.Instances = index, limit, uuids
	})
	cards := append([]*card{c}, instances...)
	return cards, b.saw(index, cards, nil)
}

// saw stores the cards at an index, and returns err.
func (b *Backend) saw(index int, cards []*card, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[index] = cards
	return err
}
