package nvml_test

import (
	"testing"

	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/devicetest"
)

func TestConformance(t *testing.T) {
	for name, gpus := range map[string]int{"no GPU": 0, "two GPUs": 2} {
		t.Run(name, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Backend { return newRig(t, gpus).backend() })
		})
	}
	t.Run("MIG", func(t *testing.T) {
		devicetest.Run(t, func(t *testing.T) device.Backend { return cutRig(t).backend() })
	})
}
