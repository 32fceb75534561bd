package view

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// someStatus is a machine where everything that can look odd does: a long name,
// a wide one, a device that measures little, and one that does not answer.
func someStatus() api.StatusAll {
	all := api.StatusAll{Host: "h", Version: "1.2.3", Monitoring: true, GPUs: []api.Status{
		someDevice(0, "NVIDIA H200", gpu.Optimal, 143771, gpu.Sample{
			Utilization: gpu.Some[gpu.Percent](57), MemoryUsed: gpu.Some[gpu.MiB](84070),
			Temperature: gpu.Some[gpu.Celsius](61), Power: gpu.Some[gpu.Watts](698.6),
			ClockSM: gpu.Some[gpu.MHz](1470), Throttle: []gpu.ThrottleReason{gpu.ThrottlePowerCap},
			Processes: []gpu.Process{
				{PID: 4711, Name: "python3 train.py --epochs 10", Kind: gpu.Compute, Memory: gpu.Some[gpu.MiB](83000)},
				{PID: 5, Name: "evil\x1b[31m", Kind: gpu.Graphics},
			},
		}),
		someDevice(1, "NVIDIA RTX 6000 Ada Generation", gpu.Throttled, 49140, gpu.Sample{
			Utilization: gpu.Some[gpu.Percent](100), MemoryUsed: gpu.Some[gpu.MiB](1234),
			Temperature: gpu.Some[gpu.Celsius](81), Power: gpu.Some[gpu.Watts](299),
		}),
		someDevice(2, "模擬カード 4060", gpu.Critical, 8188, gpu.Sample{
			Utilization: gpu.Some[gpu.Percent](0.4), MemoryUsed: gpu.Some[gpu.MiB](8100),
			Temperature: gpu.Some[gpu.Celsius](44),
		}),
		someDevice(3, "NVIDIA H200", gpu.Unavailable, 143771, gpu.Sample{
			Utilization: gpu.Some[gpu.Percent](99), MemoryUsed: gpu.Some[gpu.MiB](99),
		}),
	}}
	reason := func(i int, text string, since time.Duration) {
		all.GPUs[i].Reason, all.GPUs[i].Since = text, now.Add(-since)
	}
	all.GPUs[0].Outlook = &api.Outlook{Power: 690, Settles: 78.4, Low: 76.2, High: 80.1, Thresholds: []api.ThresholdForecast{
		{Threshold: "temp_normal", Limit: 75, Seconds: gpu.Some(40.2)}, {Threshold: "temp_throttle", Limit: 85}, {Threshold: "temp_critical", Limit: 90},
	}}
	all.GPUs[0].Cause, all.GPUs[0].Multiplier, all.GPUs[0].Slower = "forecast", 0.5, "it passes temp_normal 75 °C in 40 s at 690 W, and settles at 78 °C"
	all.GPUs[1].Outlook = &api.Outlook{Power: 110, Settles: 88, Low: 86, High: 90, Thresholds: []api.ThresholdForecast{
		{Threshold: "temp_normal", Limit: 75, Seconds: gpu.Some(0.0)}, {Threshold: "temp_throttle", Limit: 85, Seconds: gpu.Some(125.0)}, {Threshold: "temp_critical", Limit: 90},
	}}
	reason(0, "everything is well below its limits", 3*time.Hour)
	reason(1, "81 °C is above temp_normal (75 °C); it may run at half speed until it has been cooler for 30 s", 42*time.Second)
	reason(2, "memory is at 99 %", 5*time.Minute)
	reason(3, "the device did not answer in time", 12*time.Second)
	all.GPUs[3].Health = gpu.HealthUnknown
	all.GPUs[3].Sample.Time = now.Add(-13 * time.Second)
	all.Utilization = api.Utilization{TotalGPUs: 4, TotalCapacity: 16, TotalActive: 3}
	return all
}

func someDevice(index int, name string, state gpu.State, total gpu.MiB, s gpu.Sample) api.Status {
	uuid := "GPU-" + string(rune('0'+index))
	s.GPU, s.Time, s.MemoryTotal = uuid, now, gpu.Some(total)
	return api.Status{
		Device: gpu.Device{
			UUID: uuid, Index: index, Name: name, Vendor: gpu.NVIDIA, Backend: "nvml", Driver: "580.65.06",
			PCI: "0000:1b:00.0", MemoryTotal: total, PowerLimit: gpu.Some[gpu.Watts](700), TempSlowdown: gpu.Some[gpu.Celsius](89),
			NUMANode: gpu.Some(0),
		},
		State: state, Multiplier: state.Multiplier(), Health: gpu.Healthy, Sample: &s, Slots: api.Slots{Active: 1, Capacity: 4, Usable: 4},
	}
}

func someAvailable() api.Available {
	return api.Available{GPUs: []api.DeviceAvailable{
		{GPU: "GPU-0", Available: 20 << 10, Leased: 120 << 10, Foreign: 600, Total: 143771},
		{GPU: "GPU-1", Available: 30 << 10, Leased: 16 << 10, Foreign: 615, Total: 49140},
		{GPU: "GPU-2", Foreign: 8100, Total: 8188, Reason: "memory is at 99 %"},
	}}
}

// someLeases is a lease of every kind, and two requests that wait.
func someLeases() api.Leases {
	expires, deadline := now.Add(42*time.Second), now.Add(18*time.Second)
	part := func(uuid string, memory gpu.MiB, slots int, measured ...gpu.MiB) api.LeasePart {
		p := api.LeasePart{GPU: uuid, Memory: memory, Slots: slots}
		if len(measured) > 0 {
			p.Measured = gpu.Some(measured[0])
		}
		return p
	}
	return api.Leases{
		Leases: []api.Lease{
			{ID: "embedder", Fence: 7, State: "active", Binding: "named", Granted: now.Add(-50 * time.Hour), EnforcedBy: "none",
				Holder: api.Holder{Service: "embedder", Name: "berth", User: "root"}, Parts: []api.LeasePart{part("GPU-0", 4096, 0, 3210)}},
			{ID: "lease-ab12cd34ef", Fence: 8, State: "active", Binding: "process", Granted: now.Add(-12 * time.Minute), Energy: gpu.Some[gpu.Joules](5.4e6), EnforcedBy: "framework",
				Holder: api.Holder{Name: "python3 \x1b[31m", User: "ann", PID: 4711},
				Parts:  []api.LeasePart{part("GPU-0", 80<<10, 1, 81<<10), part("GPU-1", 80<<10, 1)}},
			{ID: "embedder-2", Fence: 9, State: "parked", Binding: "ttl", Granted: now.Add(-18 * time.Second), EnforcedBy: "watchdog", TTL: 60, Expires: &expires,
				Holder: api.Holder{Service: "embedder", User: "ann"}, Parts: []api.LeasePart{part("GPU-0", 1024, 1)}, Parkable: true,
				Parking: &api.Parking{Since: now.Add(-7 * time.Second), By: gpu.By{User: "olga"}, Why: "night\x1b[31m", Host: 1024, Returns: true, Times: 2, Moving: 3}},
			{ID: "lost", Fence: 10, State: "active", Binding: "named", Granted: now, EnforcedBy: "none",
				Parts: []api.LeasePart{part("GPU-gone", 0, 2)}},
		},
		Waiting: []api.Waiting{
			{ID: "first", Position: 1, Since: now.Add(-20 * time.Second), Holder: api.Holder{User: "bob"}, GPUs: 1, Slots: 1, Priority: 5},
			{ID: "big", Position: 2, Since: now.Add(-12 * time.Second), Deadline: &deadline,
				Holder: api.Holder{Service: "trainer", User: "ann"}, GPUs: 2, Memory: 100 << 10, Slots: 1},
		},
	}
}

// someExplanation explains by the memory alone: up to 20 GiB fits, up to 139
// GiB could.
func someExplanation(asked api.LeaseRequest) api.Explanation {
	if asked.Memory <= 20<<10 {
		return api.Explanation{Fits: true, Possible: true, Text: "It would be granted now."}
	}
	e := api.Explanation{LargestNow: 20 << 10, LargestEver: 139 << 10, Possible: asked.Memory <= 139<<10}
	e.Hint = "wait, or ask for at most 20 GiB, which is free now"
	e.Text = fmt.Sprintf("Place %s and 1 slot: no device fits (%s).", asked.Memory, e.Hint)
	soon := now.Add(3 * time.Minute)
	small := fmt.Sprintf("needs %s and could never have more than 47 GiB", asked.Memory)
	e.Devices = []api.Obstacle{
		{GPU: "GPU-0", Code: "no_memory", Text: fmt.Sprintf("needs %s and has 20 GiB", asked.Memory), Holders: []api.HolderUntil{
			{Lease: "embedder", Holder: api.Holder{Service: "embedder", User: "root"}, Memory: 4096, Until: &soon, Parkable: true},
			{Lease: "lease-ab12cd34ef", Holder: api.Holder{Name: "python3 \x1b[31m", User: "ann"}, Memory: 81 << 10, Slots: 1},
		}},
		{GPU: "GPU-1", Code: "too_small", Text: small, Holders: []api.HolderUntil{{Lease: "lease-ab12cd34ef"}}},
		{GPU: "GPU-2", Code: "too_small", Text: small},
		{GPU: "GPU-3", Code: "closed", Text: "nothing is granted here: the device did not answer in time"},
	}
	return e
}

// someRanking is about a request that fits on two of four devices.
func someRanking() api.Explanation {
	e := someExplanation(api.LeaseRequest{Memory: 1 << 10})
	e.Grant = &api.Lease{Parts: []api.LeasePart{{GPU: "GPU-1"}}}
	e.Ranking = []api.Ranked{
		{GPU: "GPU-1", Index: 1, Rank: 1, Active: 1, Usable: 4, Available: 100 << 10, Utilization: gpu.Some[gpu.Percent](3.4), Temperature: gpu.Some[gpu.Celsius](39)},
		{GPU: "GPU-0", Rank: 2, Active: 1, Usable: 4, Available: 20 << 10, Replicas: 2, Preferred: true, Why: "it would settle at 84 °C, above temp_normal 75 °C"},
		{GPU: "GPU-2", Index: 2, Why: "needs 1 slot; 2 of 2 usable are taken (of 4, while it is THROTTLED or not fully trusted)", Code: "no_slot", Active: 2, Usable: 2, Available: -300},
		{GPU: "GPU-3", Index: 3, Why: "nothing is granted here: \x1b[31m gone", Code: "closed"},
	}
	return e
}

func someStrays() api.Strays {
	return api.Strays{
		Orphans: []api.Stray{{GPU: "GPU-0", PID: 77, Name: "evil\x1b[31m", User: "ann", Memory: gpu.Some[gpu.MiB](2048), Lease: "train-7"}},
		Foreign: []api.Stray{{GPU: "GPU-gone", Name: "jupyter"}},
	}
}

func undecidedStrays() api.Strays {
	return api.Strays{
		Foreign: []api.Stray{
			{GPU: "GPU-0", PID: 78, Name: "embed", User: "ann", Memory: gpu.Some[gpu.MiB](2048), Evidence: "program", Fits: []string{"embed", "b\x1b[31m"}},
			{GPU: "GPU-0", PID: 79, Name: "other", User: "ann", Memory: gpu.Some[gpu.MiB](7)},
		},
	}
}

func strayPods() api.Strays {
	return api.Strays{Foreign: []api.Stray{
		{GPU: "GPU-0", PID: 78, Name: "python3", User: "root", Memory: gpu.Some[gpu.MiB](2048), Pod: "0f3c9a52-7b6e-4c1d-9e0f-2a4b6c8d0e1f"},
		{GPU: "GPU-0", PID: 79, Name: "other", User: "ann", Memory: gpu.Some[gpu.MiB](7)},
	}}
}

func someBelonging() api.Leases {
	return api.Leases{
		Leases: []api.Lease{
			{ID: "embedder", Processes: []api.Belonging{
				{GPU: "GPU-0", PID: 4711, Name: "embed\x1b[31m", Memory: 3210, Evidence: "program"}, {GPU: "GPU-1", PID: 4712, Name: "embed", Memory: 1, Evidence: "descent"},
			}},
			{ID: "idle"},
			{ID: "pod", Processes: []api.Belonging{{GPU: "GPU-gone", Memory: 1 << 20, Evidence: "telepathy"}}},
		},
	}
}
