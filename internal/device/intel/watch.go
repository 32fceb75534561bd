package intel

import (
	"context"
	"strings"

	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// Watch reports faults that the drivers write to the kernel's log, if berth may read it.
// Only root may read the log, unless the machine lets everybody read it.
func (b *Backend) Watch(ctx context.Context, found func(device.Fault)) error {
	if ctx.Err() != nil {
		return nil
	}
	err := drm.Follow(ctx, b.Root.Log(), func(m drm.Message) { b.heard(m, found) })
	if err != nil && (drm.Denied(err) || !drm.Exists(b.Root.Log())) {
		return &device.Error{Op: "watch for faults", Err: device.ErrUnsupported,
			Hint: "run berth as root, or give it CAP_SYSLOG, to let it read the kernel's log"}
	}
	return err
}

// heard reports a message of a driver if it describes a fault.
func (b *Backend) heard(m drm.Message, found func(device.Fault)) {
	if driver, _, _ := strings.Cut(m.Text, " "); driver != older && driver != newer {
		return
	}
	fault, pid, ok := catalogue.Describe(m.Text)
	c := b.find(m.PCI)
	if !ok || c == nil {
		return
	}
	found(device.Fault{Fault: fault, GPU: c.uuid, Time: b.Now(), PID: pid, Detail: map[string]any{"kind": "kernel_log", "message": m.Text}})
}
