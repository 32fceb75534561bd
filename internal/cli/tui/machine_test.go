package tui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

var now = time.Date(2026, 11, 16, 15, 4, 5, 0, time.UTC)

// someDevice returns a device that is at work.
func someDevice(index int, load gpu.Percent, used gpu.MiB, temperature gpu.Celsius) api.Status {
	uuid := fmt.Sprintf("GPU-%d", index)
	return api.Status{
		Device: gpu.Device{UUID: uuid, Index: index, Name: "NVIDIA H200", MemoryTotal: 143771, PowerLimit: gpu.Some[gpu.Watts](700)},
		State:  gpu.Optimal, Since: now.Add(-time.Hour), Health: gpu.Healthy, Multiplier: 1, Slots: api.Slots{Active: 1, Capacity: 4, Usable: 4},
		Sample: &gpu.Sample{
			GPU: uuid, Time: now, Utilization: gpu.Some(load), MemoryUsed: gpu.Some(used), MemoryTotal: gpu.Some[gpu.MiB](143771),
			Temperature: gpu.Some(temperature), Power: gpu.Some(gpu.Watts(80 + 6*load)),
		},
	}
}

// someSamples returns five minutes of a device in waves.
func someSamples(d api.Status) []gpu.Sample {
	var list []gpu.Sample
	for ago := 5 * time.Minute; ago > 0; ago -= time.Second {
		s := *d.Sample
		wave := 0.6 + 0.4*math.Sin(ago.Seconds()/30+float64(d.Device.Index))
		s.Time = now.Add(-ago)
		s.Utilization = gpu.Some(gpu.Percent(wave * float64(s.Utilization.Or(0))))
		s.Temperature = gpu.Some(gpu.Celsius(30 + wave*float64(s.Temperature.Or(0)-30)))
		s.Power = gpu.Some(gpu.Watts(wave * float64(s.Power.Or(0))))
		list = append(list, s)
	}
	return list
}

func someLease(id, user string, device int, asked, used gpu.MiB, age time.Duration) api.Lease {
	uuid := fmt.Sprintf("GPU-%d", device)
	l := api.Lease{
		ID: id, Fence: uint64(len(id)) + uint64(device), State: "active", Holder: api.Holder{User: user, Service: "render", Name: "python3"}, Binding: "named",
		Granted: now.Add(-age), EnforcedBy: "watchdog", Parts: []api.LeasePart{{GPU: uuid, Memory: asked, Slots: 1}},
	}
	if used > 0 {
		l.Parts[0].Measured, l.Energy = gpu.Some(used), gpu.Some(gpu.Joules(used)*10)
		l.Processes = []api.Belonging{{GPU: uuid, PID: 4700 + int(asked%97), Name: "python3 train.py", Memory: used, Evidence: "descent"}}
	}
	return l
}

// someFacts is a machine where something is the matter: a device that is
// CRITICAL, one that is gone, one that is drained; leases that use too much and
// too little; names that are up to no good.
func someFacts() Facts {
	all := api.StatusAll{Host: "box", Version: "v1.2.3", Monitoring: true, GPUs: []api.Status{
		someDevice(0, 57, 83000, 61), someDevice(1, 99, 140000, 91), someDevice(2, 3, 900, 33), someDevice(3, 0, 0, 0),
	}}
	hot, drained, gone := &all.GPUs[1], &all.GPUs[2], &all.GPUs[3]
	hot.State, hot.Since, hot.Reason = gpu.Critical, now.Add(-12*time.Second), "91 °C is above temp_critical 90 °C"
	drained.Drain = &api.Drain{By: "ada", Reason: "new fan", Since: now.Add(-time.Hour)}
	gone.State, gone.Health, gone.Sample, gone.Reason = gpu.Unavailable, gpu.HealthUnknown, nil, "it is not on the bus any more"
	gone.Device.Name = "模擬カード \x1b[31m<b>evil</b>"
	hours, wait := now.Add(-time.Hour), now.Add(-16*time.Minute)
	all.Needs = []api.Need{
		{Kind: "critical", Severity: gpu.Serious, GPU: "GPU-1", Since: &hot.Since, Text: "GPU 1 is CRITICAL: " + hot.Reason},
		{Kind: "unavailable", Severity: gpu.Serious, GPU: "GPU-3", Since: &hours, Text: "GPU 3 is UNAVAILABLE: " + gone.Reason},
		{Kind: "drained", Severity: gpu.Warning, GPU: "GPU-2", Text: "GPU 2 is drained by ada: new fan"},
		{Kind: "over", Severity: gpu.Warning, Lease: "train-vit", User: "bob", Text: "train-vit uses 100 GiB and leased 96 GiB"},
		{Kind: "waiting", Severity: gpu.Warning, Lease: "big-batch", User: "cy", Since: &wait, Text: "big-batch waits"},
		{Kind: "orphans", Severity: gpu.Warning, Text: "1 process uses a GPU after the end of the lease"},
	}
	leases := api.Leases{
		Leases: []api.Lease{
			someLease("embedder", "ada", 0, 16<<10, 12<<10, 3*time.Hour), someLease("train-vit", "bob", 1, 96<<10, 100<<10, 20*time.Minute),
			someLease("notebook", "eve", 0, 48<<10, 2<<10, 50*time.Hour), someLease("evil\x1b[2J\x1b]0;owned\a\u202e‮模擬\u0301", "mal\nlory", 2, 1<<10, 0, time.Minute),
		},
		Waiting: []api.Waiting{
			{ID: "big-batch", Position: 1, Since: now.Add(-6 * time.Minute), Holder: api.Holder{User: "cy"}, GPUs: 1, Memory: 130 << 10, Slots: 1},
			{ID: "eval", Position: 2, Since: now.Add(-time.Minute), Holder: api.Holder{User: "ada"}, GPUs: 2, Memory: 8 << 10},
		},
	}
	leases.Leases[2].State, leases.Leases[2].Parking = "parked", &api.Parking{Times: 1, Host: 2 << 10, Since: now.Add(-time.Minute)}
	f := Facts{
		Status: &all, Leases: &leases, At: now, Samples: map[string][]gpu.Sample{},
		Available: &api.Available{GPUs: []api.DeviceAvailable{{GPU: "GPU-0", Leased: 64 << 10, Foreign: 3 << 10, Available: 60 << 10}}},
		Strays: &api.Strays{
			Orphans: []api.Stray{{GPU: "GPU-0", PID: 88, Name: "left-over", User: "ada", Memory: gpu.Some[gpu.MiB](512), Lease: "old"}},
			Foreign: []api.Stray{{GPU: "GPU-1", PID: 77, Name: "jupyter", User: "zoe", Memory: gpu.Some[gpu.MiB](6 << 10)}},
		},
		Reasons: map[string]api.Explanation{"cy/big-batch": {
			Text: "Place 130 GiB: no device fits.", LargestNow: 60 << 10, LargestEver: 139 << 10, Possible: true,
			Devices: []api.Obstacle{{GPU: "GPU-0", Text: "needs 130 GiB and has 60 GiB"}, {GPU: "GPU-1", Text: "nothing is granted here: it is CRITICAL"}},
			Ranking: []api.Ranked{{GPU: "GPU-0", Available: 60 << 10}, {GPU: "GPU-1", Index: 1}},
		}},
	}
	for _, d := range all.GPUs[:3] {
		f.Samples[d.Device.UUID] = someSamples(d)
	}
	return f
}

// serviceFacts is that machine with services whose programs berth runs.
func serviceFacts() Facts {
	f := someFacts()
	took := func(seconds float64) api.ServiceTime {
		return api.ServiceTime{Seconds: seconds, Last: seconds, Count: 2}
	}
	f.Services = &api.Services{Services: []api.Service{
		{Name: "chat", Models: []string{"qwen3-8b", "gpt-*"}, User: "ada", State: "ready", Since: now.Add(-5 * time.Minute), Start: "on_demand", Away: "auto", Goes: "park", Devices: []string{"GPU-0"}, Memory: gpu.Some(gpu.MiB(12288)), Open: 2, Waiting: 1, Took: api.ServiceTimes{Start: took(9), Park: took(27), Resume: took(7.2)}},
		{Name: "draw", User: "bob", State: "failed", Since: now.Add(-time.Minute), Start: "on_demand", Away: "auto", Failure: &api.ServiceFailure{At: now.Add(-time.Minute), Why: "it ended with code 3 before it was ready", Count: 4, Next: now.Add(40 * time.Second), Log: []string{"no such file: \x1b[2J"}}},
		{Name: "old", User: "ada", State: "stopped", Since: now.Add(-26 * time.Hour), Start: "on_demand", Away: "stop", Stopped: &api.FrontStopped{By: "root", Why: "new weights", At: now.Add(-26 * time.Hour)}},
		{Name: "talk", User: "ada", State: "parked", Since: now.Add(-time.Hour), Start: "always", Away: "park", Devices: []string{"GPU-0"}, Memory: gpu.Some(gpu.MiB(8192)), Took: api.ServiceTimes{Resume: took(3)}},
	}}
	return f
}

// jobFacts is that machine with jobs, and with what it says itself of a process.
func jobFacts() Facts {
	f := serviceFacts()
	began, ended := now.Add(-20*time.Minute), now.Add(-5*time.Minute)
	f.Jobs = &api.Jobs{Jobs: []api.Job{
		{ID: "train-vit-with-a-long-name-17", User: "bob", State: "running", Submitted: began, Started: &began, GPUs: 1, Memory: 96 << 10, Devices: []string{"GPU-1"}, Lease: "train-vit", Command: []string{"python3", "train.py", "--name", "a b"}},
		{ID: "sweep-18", User: "cy", State: "waiting", Code: "queue", Submitted: now.Add(-6 * time.Minute), GPUs: 1, Memory: 130 << 10, Estimate: &api.Estimate{Unknown: "train-vit has no time limit and no history"}},
		{ID: "array-19", User: "cy", State: "running", Submitted: began, Tasks: &api.JobTasks{Total: 12, Running: 2, Waiting: 10}},
		{ID: "old-9\x1b[2J", User: "eve", State: "failed", Submitted: began, Started: &began, Ended: &ended, Exit: gpu.Some(3), Cause: "it ended with code 3"},
	}}
	pid := f.Leases.Leases[1].Processes[0].PID
	f.Programs = map[int]Program{
		pid: {Command: "/usr/bin/python3 train.py --data /sets/\x1b]0;owned\a --epochs 90", CPU: gpu.Some[gpu.Percent](371), Host: gpu.Some[gpu.MiB](18 << 10)},
	}
	f.Status.GPUs[1].Sample.ProcessUtilization = map[int]gpu.Percent{pid: 88}
	f.Status.Machine = &api.Machine{CPUs: 16, Load: 9.25, Percent: 58, Total: 256 << 10, Available: 91 << 10}
	return f
}

func someEvents() []gpu.Event {
	return []gpu.Event{
		{ID: 1, Time: now.Add(-30 * time.Hour), Code: "lease_granted", Severity: gpu.Note, Lease: "notebook", Text: "notebook holds 48 GiB on GPU 0"},
		{ID: 2, Time: now.Add(-time.Minute), Code: gpu.EventThrottle, Severity: gpu.Warning, GPU: "GPU-1", Text: "GPU 1 should run at 50 % of full speed: 86 °C is above temp_throttle"},
		{ID: 3, Time: now.Add(-12 * time.Second), Code: gpu.EventCritical, Severity: gpu.Serious, GPU: "GPU-1", Text: "GPU 1 must rest:\x1b[2J\n91 °C is above temp_critical 90 °C"},
	}
}

// manyFacts is a large machine: 16 devices, one of them hot, 200 leases, 50 that wait.
func manyFacts() Facts {
	all, leases := api.StatusAll{Host: "dgx", Version: "v1.2.3", Monitoring: true}, api.Leases{}
	f := Facts{Status: &all, Leases: &leases, At: now, Samples: map[string][]gpu.Sample{}}
	for i := range 16 {
		d := someDevice(i, gpu.Percent(6*i), gpu.MiB(8000*i), gpu.Celsius(35+3*i))
		if i == 11 {
			d.State, d.Reason = gpu.Critical, "91 °C is above temp_critical 90 °C"
		}
		all.GPUs = append(all.GPUs, d)
		f.Samples[d.Device.UUID] = someSamples(d)
	}
	for i := range 200 {
		leases.Leases = append(leases.Leases, someLease(fmt.Sprintf("lease-%03d", i), fmt.Sprintf("user%d", i%7), i%16, gpu.MiB(1024+i), gpu.MiB(i*3), time.Duration(i)*time.Minute))
	}
	for i := range 50 {
		leases.Waiting = append(leases.Waiting, api.Waiting{ID: fmt.Sprintf("waits-%02d", i), Position: i + 1, Since: now, Holder: api.Holder{User: "ada"}, GPUs: 1, Memory: 1 << 20})
	}
	return f
}

// scene returns a screen of a size that has taken facts, events and keys.
func scene(width, height int, f Facts, keys ...string) *State {
	s := New()
	s.Tick(now)
	s.Resize(width, height)
	s.Take(f)
	s.TakeEvents(someEvents()...)
	for _, key := range keys {
		s.Press(key)
	}
	return s
}

// text returns a frame as one text.
func frameText(s *State) string { return strings.Join(s.Frame(), "\n") }
