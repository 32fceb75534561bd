package cli

import (
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// fakeStatus is a machine where everything that can look odd does: a long name,
// a wide one, a device that measures little, and one that does not answer.
func fakeStatus(host string) api.StatusAll {
	all := api.StatusAll{Host: host, Version: "1.2.3", Monitoring: true, GPUs: []api.Status{
		fakeDevice(0, "NVIDIA H200", gpu.Optimal, 143771, gpu.Sample{
			Utilization: gpu.Some[gpu.Percent](57), MemoryUsed: gpu.Some[gpu.MiB](84070),
			Temperature: gpu.Some[gpu.Celsius](61), Power: gpu.Some[gpu.Watts](698.6),
			ClockSM: gpu.Some[gpu.MHz](1470), Throttle: []gpu.ThrottleReason{gpu.ThrottlePowerCap},
			Processes: []gpu.Process{
				{PID: 4711, Name: "python3 train.py --epochs 10", Kind: gpu.Compute, Memory: gpu.Some[gpu.MiB](83000)},
				{PID: 5, Name: "evil\x1b[31m", Kind: gpu.Graphics},
			},
		}),
		fakeDevice(1, "NVIDIA RTX 6000 Ada Generation", gpu.Throttled, 49140, gpu.Sample{
			Utilization: gpu.Some[gpu.Percent](100), MemoryUsed: gpu.Some[gpu.MiB](1234),
			Temperature: gpu.Some[gpu.Celsius](81), Power: gpu.Some[gpu.Watts](299),
		}),
		fakeDevice(2, "模擬カード 4060", gpu.Critical, 8188, gpu.Sample{
			Utilization: gpu.Some[gpu.Percent](0.4), MemoryUsed: gpu.Some[gpu.MiB](8100),
			Temperature: gpu.Some[gpu.Celsius](44),
		}),
		fakeDevice(3, "NVIDIA H200", gpu.Unavailable, 143771, gpu.Sample{
			Utilization: gpu.Some[gpu.Percent](99), MemoryUsed: gpu.Some[gpu.MiB](99),
		}),
	}}
	reason := func(i int, text string, since time.Duration) {
		all.GPUs[i].Reason, all.GPUs[i].Since = text, testNow.Add(-since)
	}
	reason(0, "everything is well below its limits", 3*time.Hour)
	reason(1, "81 °C is above temp_normal (75 °C); it may run at half speed until it has been cooler for 30 s", 42*time.Second)
	reason(2, "memory is at 99 %", 5*time.Minute)
	reason(3, "the device did not answer in time", 12*time.Second)
	all.GPUs[3].Health = gpu.HealthUnknown
	all.GPUs[3].Sample.Time = testNow.Add(-13 * time.Second)
	all.Utilization = api.Utilization{TotalGPUs: 4, TotalCapacity: 16, TotalActive: 3}
	return all
}

func fakeDevice(index int, name string, state gpu.State, total gpu.MiB, s gpu.Sample) api.Status {
	uuid := "GPU-" + string(rune('0'+index))
	s.GPU, s.Time, s.MemoryTotal = uuid, testNow, gpu.Some(total)
	return api.Status{
		Device: gpu.Device{
			UUID: uuid, Index: index, Name: name, Vendor: gpu.NVIDIA, Backend: "nvml", Driver: "580.65.06",
			PCI: "0000:1b:00.0", MemoryTotal: total, PowerLimit: gpu.Some[gpu.Watts](700), TempSlowdown: gpu.Some[gpu.Celsius](89),
			NUMANode: gpu.Some(0),
		},
		State: state, Multiplier: state.Multiplier(), Health: gpu.Healthy, Sample: &s, Slots: api.Slots{Active: 1, Capacity: 4, Usable: 4},
	}
}
