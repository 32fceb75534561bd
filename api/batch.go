package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Batches are the batches that run, and those that ended a moment ago.
type Batches struct {
	Batches []Batch `json:"batches" doc:"Oldest first."`
}

// LatencyBounds returns the upper ends of the buckets that latencies are counted
// in, in seconds. All runners use these: a metric has one set of buckets.
func LatencyBounds() []float64 {
	return []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250}
}

// Batch is where a batch stands, as its runner reported it.
type Batch struct {
	ID       string    `json:"id" maxLength:"128" doc:"Chosen by the runner, for one run of it: printable characters."`
	Output   string    `json:"output" maxLength:"4096" doc:"The file it writes."`
	Command  string    `json:"command,omitempty" maxLength:"1024" doc:"Of its workers."`
	Stage    string    `json:"stage" enum:"open,running,finishing,done,stopped,failed"`
	Error    string    `json:"error,omitempty" maxLength:"1024" doc:"Why it failed."`
	Started  time.Time `json:"started,omitzero"`
	Reported time.Time `json:"reported,omitzero" doc:"When the runner last said so. One that says nothing for ten seconds is taken off the list."`
	User     string    `json:"user,omitempty" maxLength:"256" doc:"Whose runner it is, by the credentials of its connection."`
	PID      int       `json:"pid,omitempty" minimum:"0" maximum:"2147483647" doc:"Of the runner."`

	Total    gpu.Opt[int64] `json:"total,omitzero" minimum:"0" maximum:"9007199254740992" doc:"Records of the input; an estimate until it is read to its end."`
	Exact    bool           `json:"total_exact"`
	Done     int64          `json:"done" minimum:"0" maximum:"9007199254740992" doc:"Records with an outcome, with those of earlier runs."`
	Before   int64          `json:"done_before" minimum:"0" maximum:"9007199254740992" doc:"Of which earlier runs did so many."`
	Failed   int64          `json:"failed" minimum:"0" maximum:"9007199254740992" doc:"Records whose outcome is an error, with those of earlier runs."`
	Marked   int64          `json:"marked" minimum:"0" maximum:"9007199254740992" doc:"Of which so many broke workers."`
	Retries  int64          `json:"retries" minimum:"0" maximum:"9007199254740992" doc:"Records that had to be given out again."`
	Restarts int64          `json:"restarts" minimum:"0" maximum:"9007199254740992" doc:"Workers that were started again."`

	Rate gpu.Opt[float64] `json:"records_per_second,omitzero" minimum:"0" maximum:"1000000000000" doc:"Over the last ten seconds."`
	Left gpu.Opt[float64] `json:"seconds_left,omitzero" minimum:"0" maximum:"1000000000000" doc:"As far as can be told from what was seen."`

	Workers int        `json:"workers" minimum:"0" maximum:"1000000000"`
	GPUs    []BatchGPU `json:"gpus" maxItems:"256" doc:"Those of this machine are kept, each once."`
}

// BatchGPU is the part that one device has in a batch.
type BatchGPU struct {
	GPU      string           `json:"gpu" maxLength:"128"`
	Index    int              `json:"index" minimum:"0" maximum:"65535"`
	Name     string           `json:"name" maxLength:"256"`
	Workers  int              `json:"workers" minimum:"0" maximum:"1000000000" doc:"That have a place there."`
	Ready    int              `json:"ready" minimum:"0" maximum:"1000000000" doc:"Of which take records."`
	Speed    float64          `json:"multiplier" minimum:"0" maximum:"1000"`
	Batch    int              `json:"batch" minimum:"0" maximum:"1000000000" doc:"Records in the last batch."`
	Done     int64            `json:"done" minimum:"0" maximum:"9007199254740992"`
	Failed   int64            `json:"failed" minimum:"0" maximum:"9007199254740992"`
	Retries  int64            `json:"retries" minimum:"0" maximum:"9007199254740992"`
	Restarts int64            `json:"restarts" minimum:"0" maximum:"9007199254740992"`
	GivenUp  bool             `json:"given_up" doc:"Workers kept failing there, and no more are started."`
	Busy     float64          `json:"busy_seconds" minimum:"0" maximum:"1000000000000" doc:"Time that its workers were at work, added up."`
	Rate     gpu.Opt[float64] `json:"records_per_second,omitzero" minimum:"0" maximum:"1000000000000"`
	Latency  Latency          `json:"latency" doc:"How long the batch took that a record was in."`
}

// Latency counts records by how long they took.
type Latency struct {
	Bounds []float64 `json:"bounds" maxItems:"64" doc:"Upper ends of the buckets, in seconds."`
	Counts []uint64  `json:"counts" maxItems:"65" doc:"One more than bounds: the last bucket has no end."`
	Sum    float64   `json:"sum_seconds" minimum:"0" maximum:"1000000000000000"`
}
