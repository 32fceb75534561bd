package amd

import "github.com/berth-gpu/berth/internal/device"

var (
	ThrottleReasons = throttleReasons
	DescribeFault   = catalogue.Describe
)

func (b *Backend) Count(counts map[string]int64, tell func(device.Fault)) { b.count(counts, tell) }
