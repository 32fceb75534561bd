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
