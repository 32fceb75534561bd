package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Status is the present state of one device.
type Status struct {
	Device     gpu.Device  `json:"device"`
	State      gpu.State   `json:"state" enum:"OPTIMAL,NORMAL,THROTTLED,CRITICAL,UNAVAILABLE"`
	Since      time.Time   `json:"since" doc:"When the device entered this state."`
	Reason     string      `json:"reason" doc:"Why the device is in this state, in one sentence."`
	StateCause string      `json:"state_cause,omitempty" enum:"temperature,memory,fault,lost,silent" doc:"What put the device into this state. fault: it, or the device that it is part of, is in quarantine. lost: it is not on the bus any more. silent: it does not answer. Absent: it is OPTIMAL, or its driver tells neither temperature nor memory."`
	Multiplier float64     `json:"multiplier" doc:"Share of full speed that work should run at."`
	Cause      string      `json:"cause" enum:"state,forecast" doc:"What decides the multiplier: the state, or a forecast that is sure of a worse one."`
	Slower     string      `json:"slower,omitempty" doc:"Why the multiplier is lower than that of the state; absent: it is not."`
	Outlook    *Outlook    `json:"outlook,omitempty" doc:"Where the temperature goes at the present power. Absent: not known, because the device does not measure its power or berth has not watched it long enough."`
	Health     gpu.Health  `json:"health" enum:"healthy,unhealthy,unknown"`
	Sample     *gpu.Sample `json:"sample,omitempty" doc:"The newest sample; absent until the device has answered once."`
	Stale      bool        `json:"stale,omitempty" doc:"The sample is older than three intervals and older than 3 seconds, so it says nothing about now."`
	Slots      Slots       `json:"slots"`
	Trust      *Trust      `json:"trust,omitempty" doc:"Present while the device is not fully trusted."`
	Drain      *Drain      `json:"drain,omitempty" doc:"Present while somebody drains the device: leases there go on, and no new ones are granted."`

	Throttling *Throttling `json:"throttling,omitempty" doc:"What berth does by itself if the device should run slower."`

	Machine *Machine `json:"machine,omitempty" doc:"The processors and the memory of the machine; only of /api/gpu/status."`

	Leases []DeviceLease `json:"leases,omitempty" doc:"The leases on the device, largest first; only with leases=true."`
	Sums   *Allocations  `json:"allocation_stats,omitempty" doc:"The sums of the leases on the device; only with leases=true."`
	Curves *Curves       `json:"curves,omitempty" doc:"What the device did in the last minutes; only of /api/gpu/status/all, with curves."`
}

// Allocations sums up the leases on a device.
type Allocations struct {
	Count int     `json:"allocation_count" doc:"Leases that hold something there. A parked one does not."`
	Total gpu.MiB `json:"total_allocated_mb" doc:"The memory that they have together. What leases have from a pool counts once."`
}

// DeviceLease is the part of a lease on one device.
type DeviceLease struct {
	ID       string    `json:"id"`
	Holder   Holder    `json:"holder"`
	State    string    `json:"state" enum:"active,parking,parked,resuming" doc:"parking, parked, resuming: its memory is on its way to the memory of the machine, is there, or is on its way back."`
	Memory   gpu.MiB   `json:"memory_mb"`
	Measured gpu.MiB   `json:"measured_mb" doc:"How much memory its processes were measured to use on the device; 0 until the daemon has seen them."`
	Slots    int       `json:"slots"`
	Granted  time.Time `json:"granted"`
	Paced    *Paced    `json:"paced,omitempty" doc:"The share that the lease is held to; absent: it runs freely."`

	Until *time.Time `json:"until,omitempty" doc:"When the lease ends at the latest, if somebody chose that."`
	Host  gpu.MiB    `json:"host_mb,omitempty" doc:"Memory of the machine that it takes while it is parked."`
}

// Well reports whether a device is OPTIMAL or NORMAL, healthy, and fully trusted.
func (s Status) Well() bool {
	return !s.State.Worse(gpu.Normal) && s.Health != gpu.Unhealthy && s.Trust == nil
}

// Trust says how far the daemon trusts a device after something went wrong on it.
type Trust struct {
	Phase    string     `json:"phase,omitempty" enum:"quarantine,probation" doc:"Absent if only slots are withheld."`
	Since    *time.Time `json:"since,omitempty"`
	Until    *time.Time `json:"until,omitempty" doc:"The earliest end of the phase."`
	Why      string     `json:"why,omitempty" doc:"What began the phase."`
	Withheld int        `json:"slots_withheld" doc:"Slots that the daemon withholds from the device for a while, because its memory ran out."`
}

// Slots counts the pipelines that a device runs and may run.
type Slots struct {
	Active   int `json:"active"`
	Capacity int `json:"capacity" doc:"max_pipelines of the device."`
	Usable   int `json:"usable" doc:"How many slots may be in use now, by the state of the device and by trust."`
}

// Version says which berth answers.
type Version struct {
	Version string `json:"version" doc:"Version of the program: 0.1.0 for a release, 0.1.0-dev+COMMIT for a build on the way to it."`
	Go      string `json:"go" doc:"Version of the Go compiler that built it."`
	OS      string `json:"os"`
	Arch    string `json:"arch" example:"amd64"`
}

// StatusAll lists every device, and says how much of the machine is in use.
type StatusAll struct {
	Host        string      `json:"host"`
	Version     string      `json:"version" doc:"Version of the daemon."`
	Monitoring  bool        `json:"monitoring" doc:"Whether the sampling loop runs."`
	Note        string      `json:"note,omitempty" doc:"A remark about the whole machine, for example that it has no GPU."`
	GPUs        []Status    `json:"gpus"`
	Utilization Utilization `json:"utilization"`
	Machine     *Machine    `json:"machine,omitempty" doc:"The processors and the memory of the machine. Absent: the daemon cannot read them."`
	Needs       []Need      `json:"needs,omitempty" doc:"What needs a person, the worst first, as far as the caller may see it."`
}

// Machine is what a program needs to know of the machine beside its devices, before it
// takes on more work.
type Machine struct {
	CPUs      int     `json:"cpus" doc:"Processors that the daemon may use."`
	Load      float64 `json:"load" doc:"How many processes ran or wanted to run in the last minute, on average. As many as there are processors: they are all busy."`
	Percent   float64 `json:"load_percent" doc:"The load in percent of the processors."`
	Total     gpu.MiB `json:"memory_total_mb"`
	Available gpu.MiB `json:"memory_available_mb" doc:"Memory that programs can get without swapping."`
}

// Need is something that needs a person. The daemon decides what does, so that every
// screen shows the same.
type Need struct {
	Kind     string       `json:"kind" enum:"monitoring,critical,unavailable,unhealthy,throttled,quarantine,stale,drained,alert,parking,over,hog,service,front,waiting,orphans"`
	Severity gpu.Severity `json:"severity" enum:"warning,critical"`
	Subject  string       `json:"subject" doc:"What it is about, as in GPU 0."`
	GPU      string       `json:"gpu,omitempty" doc:"UUID of the device that it is about."`
	Lease    string       `json:"lease,omitempty" doc:"Id of the lease or of the request that it is about."`
	User     string       `json:"user,omitempty" doc:"Whose lease or request it is."`
	Since    *time.Time   `json:"since,omitempty"`
	Text     string       `json:"text" doc:"What is the matter, in a sentence without a full stop."`
	Next     string       `json:"next,omitempty" doc:"What to do about it."`
}

// Utilization counts slots over all usable devices, which leaves out UNAVAILABLE ones.
type Utilization struct {
	TotalGPUs     int                       `json:"total_gpus" doc:"Devices that are not UNAVAILABLE. Those that are count nowhere here; gpus lists them all."`
	TotalCapacity int                       `json:"total_capacity"`
	TotalActive   int                       `json:"total_active"`
	Percent       float64                   `json:"utilization_percent"`
	PerGPU        map[string]GPUUtilization `json:"per_gpu" doc:"By UUID."`
}

// GPUUtilization counts the slots of one device.
type GPUUtilization struct {
	Active   int     `json:"active"`
	Capacity int     `json:"capacity"`
	Percent  float64 `json:"utilization_percent"`
}

// Samples is a list of samples, oldest first.
type Samples struct {
	Samples []gpu.Sample     `json:"samples"`
	Covers  gpu.Opt[float64] `json:"covers_seconds,omitzero" doc:"Of a history: the time from its oldest sample to its newest. It is shorter than what was asked for where berth has not kept that much."`
}

// Trend describes the temperature of a device over a window of time.
type Trend struct {
	GPU       string                `json:"gpu"`
	Minutes   float64               `json:"minutes" doc:"The window in the request."`
	Covers    float64               `json:"covers_seconds" doc:"The time from the oldest sample in the window to the newest: less than the window where berth has not kept that much."`
	Samples   int                   `json:"samples" doc:"How many samples with a temperature are in the window."`
	Min       gpu.Opt[gpu.Celsius]  `json:"min_celsius,omitzero"`
	Max       gpu.Opt[gpu.Celsius]  `json:"max_celsius,omitzero"`
	Average   gpu.Opt[gpu.Celsius]  `json:"average_celsius,omitzero"`
	Slope     gpu.Opt[float64]      `json:"slope_celsius_per_minute,omitzero"`
	Direction string                `json:"direction" enum:"rising,falling,stable,unknown"`
	Forecast  []TemperatureForecast `json:"forecast,omitempty" doc:"The temperatures to come, as far as the power so far tells. Absent: not known."`
	Outlook   *Outlook              `json:"outlook,omitempty" doc:"Where the temperature goes at the present power. Absent: not known."`
	Without   []WithoutLease        `json:"without,omitempty" doc:"Where the temperature would end if one lease were gone, for each lease whose power is known."`
}

// WithoutLease says where the temperature of a device would end without a lease.
type WithoutLease struct {
	Lease   string      `json:"lease" doc:"Allocation id of the lease."`
	Power   gpu.Watts   `json:"power_watts" doc:"What its processes draw, above what the device draws by itself: an average of the last seconds."`
	Settles gpu.Celsius `json:"settles_celsius" doc:"Where the temperature would end."`
	Low     gpu.Celsius `json:"settles_low_celsius" doc:"With high, the interval that holds it nine times of ten."`
	High    gpu.Celsius `json:"settles_high_celsius"`
}

// TemperatureForecast is one point of a forecast.
type TemperatureForecast struct {
	In          float64     `json:"in_seconds"`
	Temperature gpu.Celsius `json:"celsius"`
	Low         gpu.Celsius `json:"low_celsius" doc:"With high, the interval that holds the temperature nine times of ten."`
	High        gpu.Celsius `json:"high_celsius"`
}

// Outlook says where the temperature of a device goes if its power stays as it is.
type Outlook struct {
	Power      gpu.Watts           `json:"power_watts" doc:"The present power: an average of the last seconds."`
	Settles    gpu.Celsius         `json:"settles_celsius" doc:"Where the temperature ends."`
	Low        gpu.Celsius         `json:"settles_low_celsius" doc:"With high, the interval that holds it nine times of ten."`
	High       gpu.Celsius         `json:"settles_high_celsius"`
	PerWatt    float64             `json:"celsius_per_watt" doc:"How many degrees one more watt adds in the end."`
	Thresholds []ThresholdForecast `json:"thresholds" doc:"temp_normal, temp_throttle and temp_critical."`
}

// ThresholdForecast says when the temperature of a device passes a threshold at its
// present power.
type ThresholdForecast struct {
	Threshold string           `json:"threshold"`
	Limit     gpu.Celsius      `json:"limit_celsius"`
	Seconds   gpu.Opt[float64] `json:"seconds,omitzero" doc:"Time until the temperature passes the threshold; 0: it has. Absent: not at this power."`
	Soonest   gpu.Opt[float64] `json:"soonest_seconds,omitzero" doc:"With latest, the interval that holds that time nine times of ten."`
	Latest    gpu.Opt[float64] `json:"latest_seconds,omitzero" doc:"Absent: it may well never pass."`
	Text      string           `json:"text" doc:"The same in words."`
}

// Throttle says how fast work on a device may run.
type Throttle struct {
	GPU        string     `json:"gpu"`
	State      gpu.State  `json:"state" enum:"OPTIMAL,NORMAL,THROTTLED,CRITICAL,UNAVAILABLE"`
	Multiplier float64    `json:"multiplier"`
	Cause      string     `json:"cause" enum:"state,forecast" doc:"What decides the multiplier: the state, or a forecast that is sure of a worse one."`
	Throttle   bool       `json:"should_throttle" doc:"Whether work should slow down: true from THROTTLED on, and if a forecast slows it down. The multiplier has the finer steps."`
	Stop       bool       `json:"should_stop" doc:"Whether work should stop now: the device is above temp_critical or in quarantine."`
	Until      *time.Time `json:"until,omitempty" doc:"The earliest time that work may run faster, while a cooldown runs."`
	Reason     string     `json:"reason" doc:"Why, in one sentence: that of the cause."`
	Outlook    *Outlook   `json:"outlook,omitempty" doc:"Where the temperature goes at the present power. Absent: not known."`

	Throttling *Throttling `json:"throttling,omitempty" doc:"What berth does about it by itself."`
}

// Available lists how much memory of each device can be leased now.
type Available struct {
	GPUs []DeviceAvailable `json:"gpus"`
}

// DeviceAvailable has the terms that decide how much of a device can be leased: limit −
// reserve − leased − foreign, and nothing while the device is CRITICAL or UNAVAILABLE.
type DeviceAvailable struct {
	GPU       string     `json:"gpu"`
	Available gpu.MiB    `json:"available_mb"`
	Total     gpu.MiB    `json:"total_mb"`
	Limit     gpu.MiB    `json:"limit_mb" doc:"memory_limit_mb, or all memory of the device."`
	Reserve   gpu.MiB    `json:"reserve_mb" doc:"memory_reserve_mb."`
	Leased    gpu.MiB    `json:"leased_mb" doc:"Sum over all leases of the larger of leased and measured memory."`
	Foreign   gpu.MiB    `json:"foreign_mb" doc:"Memory that processes under no lease, and the driver itself, were measured to use."`
	State     gpu.State  `json:"state"`
	Health    gpu.Health `json:"health"`
	Reason    string     `json:"reason,omitempty" doc:"Why nothing is available, if nothing is."`
}

// Monitoring says whether the sampling loop runs.
type Monitoring struct {
	Running  bool    `json:"running"`
	Interval float64 `json:"interval_seconds"`
	Changed  bool    `json:"changed" doc:"Whether the call changed anything."`
}

// Ready says whether the daemon can do its work.
type Ready struct {
	Ready   bool     `json:"ready"`
	Devices int      `json:"devices"`
	Text    string   `json:"text"`
	Audit   string   `json:"audit,omitempty" doc:"Present if the audit log cannot be written, or has lost entries: what follows from that."`
	Damaged []string `json:"damaged,omitempty" doc:"Damaged state files that the daemon keeps in its state folder, until somebody removes them. An event said what each of them costs."`
	Faults  string   `json:"faults,omitempty" doc:"Present if something failed inside the daemon since it started, because of a bug in berth: how often, and when last."`
	Listen  string   `json:"listen,omitempty" doc:"Present if the daemon does not have its address on TCP: why. The Unix socket serves, and the daemon tries again."`
	Past    string   `json:"past,omitempty" doc:"What the past takes on disk, and how far back it goes; or why nothing is stored."`
}

// Throttling says what berth does by itself about a device that should run
// slower.
type Throttling struct {
	Policy string `json:"policy" enum:"advise,slots,pace,power" doc:"The setting gpu.throttle of the device."`

	Share       gpu.Opt[float64]     `json:"share,omitzero" doc:"Share of their speed that leases on the device are held to; absent: none is held back."`
	PacedLeases int                  `json:"paced_leases,omitempty" doc:"How many leases are held back."`
	PowerLimit  gpu.Opt[gpu.Watts]   `json:"power_limit_watts,omitzero" doc:"Power limit that berth set; absent: it set none."`
	Original    gpu.Opt[gpu.Watts]   `json:"power_original_watts,omitzero" doc:"Power limit that berth gives back."`
	PowerSteps  int                  `json:"power_steps,omitempty" doc:"How many steps down led to the power limit that berth set."`
	Fan         gpu.Opt[gpu.Percent] `json:"fan_percent,omitzero" doc:"Fan speed that berth set; absent: the driver sets it."`
	Denied      string               `json:"denied,omitempty" doc:"Why this daemon does nothing about the device: another one is in charge of it."`
}

// Curves has the averages of a device over equal intervals of the last minutes, oldest
// first; the last interval ends now. A list is shorter than requested if berth has not
// measured for that long, and empty if it cannot measure the value. An interval without a
// sample repeats the one before.
type Curves struct {
	Seconds     float64       `json:"seconds" doc:"How far back a whole list goes."`
	Points      int           `json:"points" doc:"How many averages a whole list has."`
	Utilization []gpu.Percent `json:"utilization_percent"`
	Temperature []gpu.Celsius `json:"temperature_celsius"`
}

// Strays lists the processes that use devices under no lease.
type Strays struct {
	Orphans []Stray `json:"orphans" doc:"Processes whose lease has ended."`
	Foreign []Stray `json:"foreign" doc:"Processes that never had a lease."`
	More
}

// Stray is a process on a device under no lease.
type Stray struct {
	GPU    string           `json:"gpu" doc:"UUID of the device."`
	PID    int              `json:"pid" doc:"0 for a process of another user, unless an operator asks."`
	Name   string           `json:"name,omitempty"`
	User   string           `json:"user,omitempty"`
	Memory gpu.Opt[gpu.MiB] `json:"memory_mb,omitzero" doc:"How much memory the process uses; absent if it only has the device open."`
	Lease  string           `json:"lease,omitempty" doc:"The lease that the process belonged to until the lease ended."`
	Pod    string           `json:"pod,omitempty" doc:"UID of the Kubernetes pod that the process runs in."`

	Evidence string   `json:"evidence,omitempty" enum:"unit,service,program" doc:"Present if it fits several leases equally, so that it belongs to none: the kind of evidence."`
	Fits     []string `json:"fits,omitempty" doc:"Those leases."`
}

// Node is one machine of a cluster, as the Kubernetes driver on it sees the daemon
// there. The driver serves it at /node.
type Node struct {
	Name   string     `json:"node" doc:"Name of the node in Kubernetes."`
	Driver string     `json:"driver_version"`
	At     time.Time  `json:"at" doc:"When the driver last heard from the daemon."`
	Down   string     `json:"down,omitempty" doc:"Why the daemon does not answer, in one sentence; what follows is then what the driver saw last. Absent: it answers."`
	Status *StatusAll `json:"status,omitempty" doc:"Absent: the driver has not seen the daemon yet."`
	Leases []PodLease `json:"leases" doc:"The oldest grant first, without processes."`
}

// PodLease is a lease on a node, and the pods that it is for.
type PodLease struct {
	Lease
	Namespace string   `json:"namespace,omitempty" doc:"Absent, like claim and pods, for a lease that is not for a claim."`
	Claim     string   `json:"claim,omitempty" doc:"Name of the ResourceClaim."`
	Pods      []string `json:"pods,omitempty" doc:"Names of the pods that use the claim."`
}

// Nodes describes several machines. berth status and berth leases print it with --json
// when they look at more than one.
type Nodes struct {
	Nodes []Node `json:"nodes" doc:"By name. One that does not answer has down, and no status."`
}
