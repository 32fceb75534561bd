package api

import (
	"encoding/json"

	"github.com/berth-gpu/berth/gpu"
)

// PlanRequest is pipelines to compile against the devices as they are now.
// They are in Pipelines or, as a whole file, in Text.
type PlanRequest struct {
	Name      string          `json:"name,omitempty" maxLength:"128" doc:"What the file is called in messages." example:"plate.yaml"`
	Pipelines json.RawMessage `json:"pipelines,omitempty" doc:"A list, as in a pipeline file."`
	Text      string          `json:"text,omitempty" doc:"Instead of pipelines: a whole pipeline file, YAML or JSON. Problems name its lines."`

	Interpreter string             `json:"interpreter,omitempty" maxLength:"4096" doc:"The Python that will run the pipelines, for messages."`
	Libraries   map[string]Library `json:"libraries,omitempty" doc:"What that Python can import, by the name that comes after import. The daemon runs no code of its callers, so the caller finds out. Absent: it is not checked, and the plan says so."`
	ProbeError  string             `json:"probe_error,omitempty" maxLength:"16384" doc:"Why that could not be found out."`
}

// Library is what a Python says about one package.
type Library struct {
	Status         string       `json:"status,omitempty" enum:"ok,missing,broken" doc:"Default: broken if there is an error, else ok."`
	Version        string       `json:"version,omitempty" maxLength:"256"`
	Reason         string       `json:"reason,omitempty" maxLength:"4096" doc:"Why it is missing or broken, or sees no GPU."`
	Error          string       `json:"error,omitempty" maxLength:"4096" doc:"The same under another name."`
	Devices        []VisibleGPU `json:"devices,omitempty" doc:"The GPUs it sees; of a package that does not use GPUs none."`
	DevicesUnknown string       `json:"devices_unknown,omitempty" maxLength:"4096" doc:"Why it is not known which GPUs it sees; empty: it is known."`
}

// The statuses of a library: importable, not installed, installed but failing on
// import.
const (
	LibraryOK      = "ok"
	LibraryMissing = "missing"
	LibraryBroken  = "broken"
)

// VisibleGPU is a GPU as a library sees it. The index that a library gives it
// says nothing, so there is none.
type VisibleGPU struct {
	UUID string `json:"uuid,omitempty"`
	PCI  string `json:"pci_bus_id,omitempty"`
	Name string `json:"name,omitempty"`
}

// Plan is what will happen, before anything does.
type Plan struct {
	File      string            `json:"file"`
	Pipelines []PlannedPipeline `json:"pipelines" doc:"In the order of the file."`
	Devices   []PlannedLoad     `json:"devices" doc:"What the plan puts on each device, in order of index."`

	SideBySide int              `json:"side_by_side" doc:"How many runs on GPUs are under way at the same time at first."`
	Waves      int              `json:"waves" doc:"How many times the devices are filled until all runs are done; 0: nothing runs on a GPU, or nothing fits now."`
	Seconds    gpu.Opt[float64] `json:"expected_seconds,omitzero" doc:"For everything on GPUs, from earlier runs; absent if a step has never been measured or a run has to wait."`
	Notes      []string         `json:"notes,omitempty" doc:"What somebody should know about the plan as a whole."`

	Table string `json:"table,omitempty" doc:"All of it for people, as berth plan prints it."`
}

// PlannedPipeline is a pipeline with everything decided but the moment it runs.
type PlannedPipeline struct {
	Name  string        `json:"name"`
	Steps []PlannedStep `json:"steps" doc:"In the order they run."`
	Runs  []PlannedRun  `json:"runs" doc:"One, or as many as count says."`

	Memory   gpu.MiB `json:"memory_mb" doc:"What each run leases: peak and context together. 0: it needs no GPU and gets none."`
	Peak     gpu.MiB `json:"peak_mb" doc:"The most GPU memory that its steps need at any moment."`
	PeakStep string  `json:"peak_step,omitempty" doc:"The step during which that is."`
	Context  gpu.MiB `json:"context_mb" doc:"For the CUDA context of its process, outside every memory pool."`
	Slots    int     `json:"slots"`

	GPU        string       `json:"gpu,omitempty" doc:"The device it asks for, as the file says it."`
	Candidates []string     `json:"candidates,omitempty" doc:"UUIDs of the devices that it could run on if nobody else were there: those it asks for, that are large enough and that its libraries see."`
	Policy     string       `json:"policy,omitempty"`
	Service    string       `json:"service,omitempty"`
	Priority   gpu.Opt[int] `json:"priority,omitzero"`

	Seconds     gpu.Opt[float64] `json:"expected_seconds,omitzero" doc:"For one run; absent if a step has never been measured."`
	Unsatisfied []string         `json:"unsatisfied,omitempty" doc:"Why some of its runs cannot start now."`
	Notes       []string         `json:"notes,omitempty" doc:"What somebody should know, such as that an amount is a guess."`
}

// PlannedRun is one execution of a pipeline.
type PlannedRun struct {
	Name  string       `json:"name" example:"plate[3]"`
	GPU   string       `json:"gpu,omitempty" doc:"UUID of the device for all its GPU steps; empty: it needs none."`
	Index gpu.Opt[int] `json:"index,omitzero" doc:"Index of that device, for people."`
	Wave  int          `json:"wave,omitempty" doc:"1 starts at once, 2 when those are done, and so on; 0: it needs no GPU, or has to wait for others."`
	Waits string       `json:"waits,omitempty" doc:"What it waits for, if it cannot start in this plan."`
}

// PlannedStep is a step with its place, its conversions and its memory.
type PlannedStep struct {
	Name      string   `json:"name"`
	After     []string `json:"after,omitempty" doc:"The steps whose outputs it takes."`
	Signature string   `json:"signature" doc:"What measurements of it are kept under."`
	Input     string   `json:"input" doc:"Memory type that it takes."`
	Output    string   `json:"output" doc:"Memory type that it gives."`
	OnGPU     bool     `json:"on_gpu" doc:"It runs on the device of its run; else on the CPU."`

	Conversions []Conversion `json:"conversions,omitempty" doc:"What happens to its inputs before it runs."`

	Memory     gpu.MiB `json:"memory_mb" doc:"GPU memory of the step by itself: inputs, outputs and what it works with."`
	MemoryFrom string  `json:"memory_from,omitempty" enum:"declared,learned,default" doc:"Where that number is from."`
	Measured   int     `json:"measured,omitempty" doc:"How many earlier runs were measured."`

	Alive []string `json:"alive,omitempty" doc:"Earlier steps whose outputs are on the GPU while it runs."`
	Held  gpu.MiB  `json:"held_mb" doc:"Memory of those outputs that are not its inputs: kept for later steps."`
	Peak  gpu.MiB  `json:"peak_mb" doc:"GPU memory of the pipeline while it runs, without the context."`

	Libraries []PlannedLibrary `json:"libraries,omitempty"`
	Seconds   gpu.Opt[float64] `json:"expected_seconds,omitzero"`
}

// The sources of an amount of memory.
const (
	MemoryDeclared = "declared" // the file says so
	MemoryLearned  = "learned"  // earlier runs measured it
	MemoryDefault  = "default"  // nobody knows
)

// Conversion turns the output of an earlier step into the input of a later one.
type Conversion struct {
	Step string `json:"step" doc:"The step whose output is converted."`
	From string `json:"from"`
	To   string `json:"to"`
	Cost string `json:"cost" enum:"zero_copy,host_copy"`
}

// The costs of a conversion.
const (
	CostZeroCopy = "zero_copy" // DLPack on the same device: a new name for the same memory
	CostHostCopy = "host_copy" // the data crosses between device and host memory
)

// PlannedLibrary is a Python package that a step imports.
type PlannedLibrary struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty" doc:"Empty if it was not asked for or does not say."`
}

// PlannedLoad is what a plan puts on one device.
type PlannedLoad struct {
	GPU        string  `json:"gpu"`
	Index      int     `json:"index"`
	Name       string  `json:"name"`
	Runs       int     `json:"runs" doc:"In all."`
	SideBySide int     `json:"side_by_side" doc:"Under way at the same time at first."`
	Waves      int     `json:"waves"`
	Waiting    int     `json:"waiting" doc:"Runs that have to wait for others to give something back."`
	Memory     gpu.MiB `json:"memory_mb" doc:"Leased by those that are side by side at first."`
}

// PlanRun asks for the leases of a plan. Give the plan as it was answered, or
// what is needed to make one.
type PlanRun struct {
	Plan *Plan `json:"plan,omitempty" doc:"As POST /api/plans answered. Of its pipelines only what the lease needs is read, so steps, and runs that are not wanted now, can be left out."`
	PlanRequest

	Runs    []string         `json:"runs,omitempty" doc:"The runs to start. Default: all."`
	ID      string           `json:"id,omitempty" maxLength:"128" doc:"A name for the lease, where there is one run. Default: one is made up from that of the run."`
	PID     int              `json:"pid,omitempty" minimum:"0" doc:"The process that holds the leases: they end with it. Default: the caller."`
	Enforce string           `json:"enforce,omitempty" enum:"auto,mps,framework,watchdog,none" doc:"Who shall hold the processes to their memory, as for a lease. Default: the watchdog."`
	Timeout gpu.Opt[float64] `json:"timeout_seconds,omitzero" doc:"How long to wait in all for what has no room now. Default: not at all."`
}

// PlanRunning is what became of the runs.
type PlanRunning struct {
	Plan *Plan        `json:"plan,omitempty" doc:"If it was made for this."`
	Runs []RunningRun `json:"runs" doc:"In the order of the plan. If none of them got its lease, the answer is a problem instead."`
}

// RunningRun is what became of one run: it has a lease, needs none, or was
// refused one.
type RunningRun struct {
	Name      string   `json:"name"`
	Pipeline  string   `json:"pipeline"`
	Placement string   `json:"placement" enum:"confirmed,remade,none,refused" doc:"Whether it is on the device of the plan; none: it needs no GPU."`
	Reason    string   `json:"reason,omitempty" doc:"Why it is on another device, or on none."`
	Planned   string   `json:"planned_gpu,omitempty" doc:"UUID of the device of the plan."`
	Lease     *Lease   `json:"lease,omitempty"`
	Problem   *Problem `json:"problem,omitempty" doc:"Why it was refused. Its code tells what is only busy now from what is never granted."`
}

// The placements of a run.
const (
	PlacedAsPlanned = "confirmed"
	PlacedElsewhere = "remade"
	PlacedNowhere   = "none"
	PlaceRefused    = "refused"
)
