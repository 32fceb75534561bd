package nvml

import (
	"context"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/nvml/xid"
)

const (
	// waitMillis bounds how long Watch takes to end, and a restart to begin. Events
	// arrive at once in any case, and each wait costs a wake-up.
	waitMillis = 1800
	// retryPause is the time between attempts to watch a device that is not there.
	retryPause = 5 * time.Second
	// wantedEvents are the events that berth acts on.
	wantedEvents = uint64(nvml.EventTypeXidCriticalError | nvml.EventTypeSingleBitEccError | nvml.EventTypeDoubleBitEccError)
)

// Watch listens to every GPU in its own goroutine, so that a GPU that hangs or is lost
// does not silence the others. It also listens to GPUs that a later Scan finds.
func (b *Backend) Watch(ctx context.Context, found func(device.Fault)) error {
	ctx, cancel := context.WithCancel(ctx)
	faults := make(chan device.Fault)
	deaf := make(chan struct{})
	watched := map[*card]bool{}
	var listeners sync.WaitGroup
	defer func() {
		cancel()
		gone := make(chan struct{})
		go func() {
			listeners.Wait()
			close(gone)
		}()
		select {
		case <-gone:
		case <-time.After(patience): // one hangs in the driver; it is left behind
		}
	}()
	for silent := 0; ; {
		cards, enlarged := b.all()
		for _, c := range cards {
			if c.slice != nil || watched[c] {
				continue
			}
			watched[c] = true
			listeners.Go(func() {
				if b.listen(ctx, c, faults) {
					return
				}
				select {
				case deaf <- struct{}{}:
				case <-ctx.Done():
				}
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case f := <-faults:
			found(f)
		case <-enlarged:
		case <-deaf:
			if silent++; silent == len(watched) {
				return failure("watch for faults", nvml.ERROR_NOT_SUPPORTED)
			}
		}
	}
}

// listen reports the faults of one GPU until ctx ends, and returns false if the GPU
// cannot report any.
func (b *Backend) listen(ctx context.Context, c *card, faults chan<- device.Fault) bool {
	for {
		s, err := b.lib.enterWatch(ctx)
		if err == nil {
			ret := b.hear(ctx, s, c, faults)
			b.lib.leaveWatch(ctx)
			if unsupported(ret) {
				return false
			}
			if ret == nvml.SUCCESS && ctx.Err() == nil {
				continue // asked to leave for a restart, which is over
			}
		}
		select {
		case <-ctx.Done():
			return true
		case <-time.After(retryPause):
		}
	}
}

// hear waits for events. It returns SUCCESS when ctx ends or the watcher has to leave the
// library, or the code with which the driver refuses.
func (b *Backend) hear(ctx context.Context, s *session, c *card, faults chan<- device.Fault) nvml.Return {
	h, ret := s.find(c)
	if ret != nvml.SUCCESS {
		return ret
	}
	events, ret := h.GetSupportedEventTypes()
	if ret != nvml.SUCCESS {
		return ret
	}
	if events &= wantedEvents; events == 0 {
		return nvml.ERROR_NOT_SUPPORTED
	}
	set, ret := s.api.EventSetCreate()
	if ret != nvml.SUCCESS {
		return ret
	}
	defer set.Free()
	if ret := h.RegisterEvents(events, set); ret != nvml.SUCCESS {
		return ret
	}
	for ctx.Err() == nil && !b.lib.unwelcome() {
		event, ret := set.Wait(waitMillis)
		switch ret {
		case nvml.SUCCESS:
			select {
			case faults <- b.fault(s, h, c, event):
			case <-ctx.Done():
			}
		case nvml.ERROR_TIMEOUT:
		default:
			return ret
		}
	}
	return nvml.SUCCESS
}

// fault returns an event in berth's words. NVML does not say which process caused it.
func (b *Backend) fault(s *session, h nvml.Device, c *card, event nvml.EventData) device.Fault {
	f := device.Fault{GPU: c.uuid, Time: time.Now()}
	if uuid, ok := b.instanceOf(s, h, c, event); ok {
		f.GPU = uuid
	}
	switch event.EventType {
	case nvml.EventTypeSingleBitEccError:
		f.Fault = gpu.Fault{Name: "a memory error was corrected", Class: gpu.FaultDevice, Severity: gpu.Note}
		f.Detail = map[string]any{"kind": "ecc_corrected"}
	case nvml.EventTypeDoubleBitEccError:
		f.Fault = gpu.Fault{
			Name: "a memory error could not be corrected", Class: gpu.FaultDevice, Severity: gpu.Serious,
			Remedy: "stop the work on this GPU and reset it.",
		}
		f.Detail = map[string]any{"kind": "ecc_uncorrected"}
	default:
		f.Fault, f.Detail = xid.Describe(int(event.EventData)), xid.Detail(int(event.EventData))
	}
	return f
}
