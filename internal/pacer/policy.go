package pacer

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Policy is the pacer as the policy of a device uses it.
type Policy struct{ *Pacer }

// Hold holds a lease to a share because of a device.
func (p Policy) Hold(fence uint64, key lease.Key, uuid string, share float64, why string) error {
	return p.Pacer.Hold(Hold{Key: key, Fence: fence, Share: share, Source: ByThrottle, Why: why, GPU: uuid})
}

// Let ends that.
func (p Policy) Let(fence uint64) { p.Pacer.Let(fence, gpu.By{}, ByThrottle) }
