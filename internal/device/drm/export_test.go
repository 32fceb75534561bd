package drm

import "github.com/berth-gpu/berth/internal/device"

func (b *Backend) Count(counts map[string]int64, tell func(device.Fault)) { b.count(counts, tell) }
