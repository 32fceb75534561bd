package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/door/promexport"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/health/heat"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
	"github.com/berth-gpu/berth/internal/history/series"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

// machine makes up what devices measure: work that comes and goes, power
// that follows it with noise, temperature that follows power.
type machine struct {
	random   *rand.Rand
	units    []*unit
	leases   []*held
	granted  int
	recorder *promexport.Recorder
	rest     time.Time
}

// unit is one device.
type unit struct {
	device  gpu.Device
	until   time.Time // how long it goes on as it does
	busy    float64   // 0: idle
	memory  gpu.MiB
	celsius float64
	joules  float64
	noise   float64
	slow    gpu.Slow
	slowAt  time.Time
	sample  gpu.Sample
	outlook *monitor.Outlook
}

// held is a lease.
type held struct {
	id     int
	gpu    int
	memory float64
	used   float64
	joules float64
	until  time.Time
}

func newMachine(devices int, name string, leases int) *machine {
	m := &machine{random: rand.New(rand.NewPCG(1, 2))}
	for i := range devices {
		m.units = append(m.units, &unit{
			device: gpu.Device{UUID: fmt.Sprintf("%s%d", name, i), Index: i, Name: "NVIDIA H200", MemoryTotal: 144384, PowerLimit: gpu.Some(gpu.Watts(700))}, celsius: 35,
		})
	}
	for range leases {
		m.leases = append(m.leases, &held{})
	}
	book, err := ledger.Open(ledger.Options{
		Settings:  quota.Settings{Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{Reserve: 512} }},
		Processes: process.Proc(), CPUs: 16,
		Open: func(func(journal.Entry) error) (journal.Journal, error) { return journal.Forgetful(), nil },
	})
	if err != nil {
		panic(err) // nothing is on disk
	}
	for _, u := range m.units {
		book.Observe(placement.Observation{Device: u.device, Sample: &u.sample, State: gpu.Optimal, Health: gpu.Healthy})
	}
	shown := func() promexport.Devices { return promexport.Devices{Readings: m.readings(), Watching: true} }
	m.recorder = promexport.New(promexport.Sources{
		Devices: shown, Look: func() promexport.Values { return promexport.Values{Devices: shown(), Ledger: book} },
		Labels: &promexport.Names{}, Version: "bench",
	}).Recorder("bench:8000")
	return m
}

// samples returns what the daemon stores at a time.
func (m *machine) samples(at time.Time, step time.Duration) []series.Sample {
	for _, u := range m.units {
		u.step(m.random, at, step)
	}
	list := m.recorder.Devices()
	if at.Sub(m.rest) >= 10*time.Second {
		m.rest = at
		list = append(append(list, m.recorder.Rest(at)...), m.held(at)...)
	}
	return list
}

// step moves a device on.
func (u *unit) step(random *rand.Rand, at time.Time, step time.Duration) {
	if at.After(u.until) {
		if u.busy, u.memory = 0, 620; random.Float64() < 0.6 {
			u.busy = 0.3 + 0.7*random.Float64()
			u.memory = gpu.MiB(4096 + random.IntN(130_000))
		}
		u.until = at.Add(time.Duration(5+random.ExpFloat64()*60) * time.Minute)
	}
	u.noise = 0.8*u.noise + 0.2*random.NormFloat64()
	load, power := 0.0, 76+0.3*random.NormFloat64()
	if u.busy > 0 {
		load = math.Round(min(max(100*u.busy+8*u.noise, 0), 100))
		power = 120 + 560*u.busy + 25*u.noise
		u.memory += gpu.MiB(random.IntN(3) - 1)
	}
	seconds := step.Seconds()
	settles := 28 + 0.04*power
	u.celsius += (settles - u.celsius) * (1 - math.Exp(-seconds/8))
	u.joules += power * seconds
	if at.Sub(u.slowAt) >= 30*time.Second {
		u.slowAt = at
		traffic := 0.5 + 900*u.busy*random.Float64()
		u.slow = gpu.Slow{
			SlowTime: at, Energy: gpu.Some(u.joules), PCIeTx: gpu.Some(math.Round(traffic*10) / 10), PCIeRx: gpu.Some(math.Round(traffic*13) / 10),
			ECCCorrected: gpu.Some(int64(0)), ECCUncorrected: gpu.Some(int64(0)),
		}
	}
	reasons := []gpu.ThrottleReason{}
	clock := gpu.MHz(1980)
	if u.busy == 0 {
		reasons = append(reasons, gpu.ThrottleIdle)
		clock = 345
	} else if power > 600 {
		reasons = append(reasons, gpu.ThrottlePowerCap)
		clock = gpu.MHz(1980 - 15*int(math.Round((power-600)/8)))
	}
	u.sample = gpu.Sample{
		GPU: u.device.UUID, Time: at, Utilization: gpu.Some(gpu.Percent(load)), MemoryBusy: gpu.Some(gpu.Percent(math.Round(load / 2))),
		MemoryTotal: gpu.Some(u.device.MemoryTotal), MemoryUsed: gpu.Some(u.memory), MemoryFree: gpu.Some(u.device.MemoryTotal - u.memory),
		Temperature: gpu.Some(gpu.Celsius(math.Round(u.celsius))), MemoryTemperature: gpu.Some(gpu.Celsius(math.Round(u.celsius + 6))),
		Power: gpu.Some(gpu.Watts(math.Round(power*10) / 10)), ClockSM: gpu.Some(clock), ClockMemory: gpu.Some(gpu.MHz(3201)),
		Throttle: reasons, Slow: u.slow,
	}
	// A calm device is asked every five seconds where its temperature goes.
	if u.busy > 0 || u.outlook == nil || at.Unix()%5 < int64(step/time.Second) {
		o := &monitor.Outlook{Power: gpu.Watts(power), Settles: heat.Guess{Mean: gpu.Celsius(settles)}, Crossings: thermal.Crossings(gpu.DefaultThresholds())}
		if settles > 65 && u.celsius < 65 {
			o.Crossings[0].Ever, o.Crossings[0].In = true, time.Duration((65-u.celsius)*float64(time.Second))
		}
		u.outlook = o
	}
}

func (m *machine) readings() []monitor.Reading {
	list := make([]monitor.Reading, len(m.units))
	for i, u := range m.units {
		list[i] = monitor.Reading{Device: u.device, Sample: u.sample, Sampled: true, State: gpu.Optimal, Multiplier: 1, Cause: monitor.CauseState, Health: gpu.Healthy, Outlook: u.outlook}
	}
	return list
}

// held returns what leases hold and use, and the energy of devices. Leases come
// and go.
func (m *machine) held(at time.Time) (list []series.Sample) {
	put := func(name string, kind series.Kind, v float64, own ...string) {
		l := map[string]string{labels.MetricName: name, "job": "berth", "instance": "bench:8000"}
		for i := 0; i < len(own); i += 2 {
			l[own[i]] = own[i+1]
		}
		list = append(list, series.Sample{Labels: labels.FromMap(l), Kind: kind, Value: v})
	}
	for _, l := range m.leases {
		if at.After(l.until) {
			if l.id > 0 {
				m.put(put, l, series.Stale(), series.Stale(), series.Stale())
			}
			m.granted++
			*l = held{id: m.granted, gpu: m.random.IntN(len(m.units)), memory: float64(1024 * (1 + m.random.IntN(60))), until: at.Add(time.Duration(10+m.random.ExpFloat64()*240) * time.Minute)}
			l.used = math.Round(l.memory * 0.7)
		}
		l.used = min(l.used+float64(m.random.IntN(5)-2), l.memory)
		l.joules += 1000 * m.random.Float64()
		m.put(put, l, l.memory, l.used, l.joules)
	}
	for _, u := range m.units {
		own := []string{"gpu", u.device.UUID, "index", strconv.Itoa(u.device.Index), "name", u.device.Name}
		put("gpu_energy_joules_total", series.Counter, u.joules, own...)
		put("gpu_idle_energy_joules_total", series.Counter, u.joules/4, own...)
	}
	return list
}

func (m *machine) put(put func(string, series.Kind, float64, ...string), l *held, memory, used, joules float64) {
	own := []string{"lease", "anna/job-" + strconv.Itoa(l.id), "user", "anna", "service", "training"}
	on := append(own[:len(own):len(own)], "gpu", m.units[l.gpu].device.UUID)
	put("berth_lease_memory_mb", series.Gauge, memory, on...)
	put("berth_lease_used_mb", series.Gauge, used, on...)
	put("berth_lease_energy_joules_total", series.Counter, joules, own...)
}
