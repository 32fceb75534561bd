package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Batches lists the batches that run, and those that ended a moment ago.
type Batches struct {
	Batches []Batch `json:"batches" doc:"Oldest first."`
	More
}

// LatencyBounds returns the upper bounds of the latency buckets, in seconds. All
// runners use these, because a metric has one set of buckets.
func LatencyBounds() []float64 {
	return []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250}
}

// Batch is the progress of a batch, as its runner reported it.
type Batch struct {
	ID       string    `json:"id" maxLength:"128" doc:"The runner chooses an id of printable characters for each run."`
	Output   string    `json:"output" maxLength:"4096" doc:"The file that the batch writes, or the name of a batch that writes none."`
	Command  string    `json:"command,omitempty" maxLength:"1024" doc:"The command of its workers."`
	Stage    string    `json:"stage" enum:"open,running,finishing,done,stopped,failed"`
	Error    string    `json:"error,omitempty" maxLength:"1024" doc:"Why the batch failed."`
	Started  time.Time `json:"started,omitzero"`
	Reported time.Time `json:"reported,omitzero" doc:"When the runner last reported. The daemon stops listing a batch whose runner reports nothing for ten seconds."`
	User     string    `json:"user,omitempty" maxLength:"256" doc:"The user of the runner, by the credentials of its connection."`
	PID      int       `json:"pid,omitempty" minimum:"0" maximum:"2147483647" doc:"The process of the runner."`

	Total    gpu.Opt[int64] `json:"total,omitzero" minimum:"0" maximum:"9007199254740992" doc:"Records of the input; an estimate until the runner has read all of it."`
	Exact    bool           `json:"total_exact"`
	Done     int64          `json:"done" minimum:"0" maximum:"9007199254740992" doc:"Records with an outcome, including those of earlier runs."`
	Before   int64          `json:"done_before" minimum:"0" maximum:"9007199254740992" doc:"How many of done are of earlier runs."`
	Failed   int64          `json:"failed" minimum:"0" maximum:"9007199254740992" doc:"Records whose outcome is an error, including those of earlier runs."`
	Marked   int64          `json:"marked" minimum:"0" maximum:"9007199254740992" doc:"How many of failed broke their workers."`
	Retries  int64          `json:"retries" minimum:"0" maximum:"9007199254740992" doc:"Records that the runner gave to a worker again."`
	Restarts int64          `json:"restarts" minimum:"0" maximum:"9007199254740992" doc:"Workers that the runner started again."`

	Rate gpu.Opt[float64] `json:"records_per_second,omitzero" minimum:"0" maximum:"1000000000000" doc:"Over the last ten seconds."`
	Left gpu.Opt[float64] `json:"seconds_left,omitzero" minimum:"0" maximum:"1000000000000" doc:"An estimate from the rate so far."`

	Energy gpu.Opt[gpu.Joules] `json:"energy_joules,omitzero" minimum:"0" maximum:"1000000000000" doc:"How much energy its workers used in this run, above what the devices draw by themselves. Only at its end."`

	Workers int        `json:"workers" minimum:"0" maximum:"1000000000"`
	GPUs    []BatchGPU `json:"gpus" maxItems:"256" doc:"The devices of the batch. The daemon keeps those of this machine, each once."`
}

// BatchGPU is the progress of a batch on one device.
type BatchGPU struct {
	GPU      string           `json:"gpu" maxLength:"128"`
	Index    int              `json:"index" minimum:"0" maximum:"65535"`
	Name     string           `json:"name" maxLength:"256"`
	Host     string           `json:"host,omitempty" maxLength:"256" doc:"The machine that the device is in. Default: the machine of the runner."`
	Workers  int              `json:"workers" minimum:"0" maximum:"1000000000" doc:"Workers that have a place on the device."`
	Ready    int              `json:"ready" minimum:"0" maximum:"1000000000" doc:"How many of them take records."`
	Speed    float64          `json:"multiplier" minimum:"0" maximum:"1000"`
	Batch    int              `json:"batch" minimum:"0" maximum:"1000000000" doc:"Records in the last batch."`
	Done     int64            `json:"done" minimum:"0" maximum:"9007199254740992"`
	Failed   int64            `json:"failed" minimum:"0" maximum:"9007199254740992"`
	Retries  int64            `json:"retries" minimum:"0" maximum:"9007199254740992"`
	Restarts int64            `json:"restarts" minimum:"0" maximum:"9007199254740992"`
	GivenUp  bool             `json:"given_up" doc:"Workers kept failing on the device, so the runner starts no more there."`
	Busy     float64          `json:"busy_seconds" minimum:"0" maximum:"1000000000000" doc:"Sum of the time that its workers worked."`
	Rate     gpu.Opt[float64] `json:"records_per_second,omitzero" minimum:"0" maximum:"1000000000000"`
	Latency  Latency          `json:"latency" doc:"How long the records took, each counted with the time of its batch."`
}

// Latency counts records by how long they took.
type Latency struct {
	Bounds []float64 `json:"bounds" maxItems:"64" doc:"Upper bounds of the buckets, in seconds."`
	Counts []uint64  `json:"counts" maxItems:"65" doc:"One more than bounds: the last bucket has no upper bound."`
	Sum    float64   `json:"sum_seconds" minimum:"0" maximum:"1000000000000000"`
}

// Measurement says how much one run of a piece of work used.
type Measurement struct {
	Name    string  `json:"name" minLength:"1" maxLength:"128" doc:"The name of the work: a pipeline, a function, a job. The daemon keeps measurements by name."`
	Step    string  `json:"step,omitempty" maxLength:"128" doc:"The step of the pipeline. Default: the whole pipeline."`
	Memory  gpu.MiB `json:"memory_mb" minimum:"0" maximum:"1099511627776" doc:"The most memory that the run used on one device."`
	Seconds float64 `json:"seconds" minimum:"0" maximum:"1000000000"`
}

// Measurements lists the measurements of earlier runs.
type Measurements struct {
	Measurements []Measured `json:"measurements" doc:"In the order of user, name and step."`
	More
}

// Measured sums up the measured runs of a piece of work.
type Measured struct {
	User    string    `json:"user"`
	Name    string    `json:"name"`
	Step    string    `json:"step,omitempty"`
	Runs    int       `json:"runs" doc:"How many runs there were. The numbers below are of the last ten."`
	Last    time.Time `json:"last" doc:"When the last run ended."`
	Asked   gpu.MiB   `json:"asked_mb" doc:"How much memory the last run leased on a device; 0: none."`
	Peak    gpu.MiB   `json:"peak_mb" doc:"The most memory that a run used on a device; 0: no run was seen on a device."`
	Next    gpu.MiB   `json:"next_mb" doc:"How much memory a run leases that does not say: the peak plus a margin; 0: nothing is known, or no run was measured often enough."`
	Seconds float64   `json:"seconds" doc:"How long a run takes on average."`

	Drew gpu.Opt[gpu.Watts] `json:"drew_watts,omitzero" doc:"How much power a run drew on a device, on average while it worked, above what the device draws by itself. Absent: no run was measured."`
}

// Operations says how much work a service has done since its last report.
type Operations struct {
	Count     int64     `json:"count,omitempty" minimum:"0" maximum:"100000000" doc:"How many operations. Default: as many as there are latencies." example:"120"`
	Seconds   float64   `json:"seconds,omitempty" minimum:"0" maximum:"8640000000000" doc:"How long the operations took, added up. The daemon counts each of them with the average. Default: not known, so only count is counted." example:"3.4"`
	Latencies []float64 `json:"latencies,omitempty" maxItems:"10000" doc:"How long each operation took, in seconds, at most a day; instead of count and seconds."`
	GPU       gpu.Ref   `json:"gpu,omitempty" maxLength:"128" doc:"Index or UUID of the device that did the work. Default: the device of the service's leases, if there is only one."`
}

// Counted says what the daemon has counted of a report.
type Counted struct {
	Service string `json:"service"`
	Count   int64  `json:"count"`
	GPU     string `json:"gpu,omitempty" doc:"The device that the operations count for. Absent if the service has no lease on the device that was named, or none was named and it has leases on several."`
}
