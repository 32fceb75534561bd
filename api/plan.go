package api

import (
	"encoding/json"

	"github.com/berth-gpu/berth/gpu"
)

// PlanRequest asks to compile pipelines against the devices as they are now. The
// pipelines are in Pipelines or, as a whole file, in Text.
type PlanRequest struct {
	Name      string          `json:"name,omitempty" maxLength:"128" doc:"The name of the file, for messages." example:"plate.yaml"`
	Pipelines json.RawMessage `json:"pipelines,omitempty" doc:"A list, as in a pipeline file."`
	Text      string          `json:"text,omitempty" doc:"Instead of pipelines: a whole pipeline file, YAML or JSON. Problems name its lines."`

	Interpreter string             `json:"interpreter,omitempty" maxLength:"4096" doc:"The Python that will run the pipelines, for messages."`
	Libraries   map[string]Library `json:"libraries,omitempty" doc:"The packages that this Python can import, by the name that comes after import. The caller finds this out, because the daemon runs no code of its callers. Absent: the daemon does not check libraries, and the plan says so."`
	ProbeError  string             `json:"probe_error,omitempty" maxLength:"16384" doc:"Why the caller could not find out the libraries."`
}

// Library says whether a Python can import a package, and which GPUs the package
// sees.
type Library struct {
	Status         string       `json:"status,omitempty" enum:"ok,missing,broken" doc:"Default: broken if there is an error, else ok."`
	Version        string       `json:"version,omitempty" maxLength:"256"`
	Reason         string       `json:"reason,omitempty" maxLength:"4096" doc:"Why the package is missing or broken, or sees no GPU."`
	Error          string       `json:"error,omitempty" maxLength:"4096" doc:"Another name for reason."`
	Devices        []VisibleGPU `json:"devices,omitempty" doc:"The GPUs that the package sees; none for a package that does not use GPUs."`
	DevicesUnknown string       `json:"devices_unknown,omitempty" maxLength:"4096" doc:"Why it is not known which GPUs the package sees; empty: it is known."`
}

// The statuses of a library: importable, not installed, installed but failing on
// import.
const (
	LibraryOK      = "ok"
	LibraryMissing = "missing"
	LibraryBroken  = "broken"
)

// VisibleGPU is a GPU as a library sees it. It has no index, because each library
// counts in its own way.
type VisibleGPU struct {
	UUID string `json:"uuid,omitempty"`
	PCI  string `json:"pci_bus_id,omitempty"`
	Name string `json:"name,omitempty"`
}

// Plan says what will run where, before anything runs.
type Plan struct {
	File      string            `json:"file"`
	Pipelines []PlannedPipeline `json:"pipelines" doc:"In the order of the file."`
	Devices   []PlannedLoad     `json:"devices" doc:"What the plan puts on each device, in the order of their indices."`

	SideBySide int              `json:"side_by_side" doc:"How many runs on GPUs run side by side at first."`
	Waves      int              `json:"waves" doc:"How many times the plan fills the devices until all runs are done; 0: nothing runs on a GPU, or nothing fits now."`
	Seconds    gpu.Opt[float64] `json:"expected_seconds,omitzero" doc:"How long everything on GPUs takes, from earlier runs; absent if a step was never measured or a run has to wait."`
	Notes      []string         `json:"notes,omitempty" doc:"What you should know about the whole plan."`

	Table string `json:"table,omitempty" doc:"The plan as text for people, as berth plan prints it."`
}

// PlannedPipeline is a pipeline with everything decided except when it runs.
type PlannedPipeline struct {
	Name  string        `json:"name"`
	Steps []PlannedStep `json:"steps" doc:"In the order in which they run."`
	Runs  []PlannedRun  `json:"runs" doc:"One, or as many as count says."`

	Memory   gpu.MiB `json:"memory_mb" doc:"How much memory each run leases: peak plus context. 0: it needs no GPU and gets none."`
	Peak     gpu.MiB `json:"peak_mb" doc:"The most GPU memory that its steps need at any moment."`
	PeakStep string  `json:"peak_step,omitempty" doc:"The step during which the pipeline needs the most."`
	Context  gpu.MiB `json:"context_mb" doc:"Memory for the CUDA context of its process, outside every memory pool."`
	Slots    int     `json:"slots"`

	GPU        string       `json:"gpu,omitempty" doc:"The device that the pipeline asks for, as written in the file."`
	Candidates []string     `json:"candidates,omitempty" doc:"UUIDs of the devices that it could run on if nobody else used them: those that it asks for, that are large enough and that its libraries see."`
	Policy     string       `json:"policy,omitempty"`
	Service    string       `json:"service,omitempty"`
	Priority   gpu.Opt[int] `json:"priority,omitzero"`

	Seconds     gpu.Opt[float64] `json:"expected_seconds,omitzero" doc:"How long one run takes; absent if a step was never measured."`
	Unsatisfied []string         `json:"unsatisfied,omitempty" doc:"Why some of its runs cannot start now."`
	Notes       []string         `json:"notes,omitempty" doc:"What you should know, for example that an amount is a guess."`
}

// PlannedRun is one execution of a pipeline.
type PlannedRun struct {
	Name  string       `json:"name" example:"plate[3]"`
	GPU   string       `json:"gpu,omitempty" doc:"UUID of the device of all its GPU steps; empty: it needs none."`
	Index gpu.Opt[int] `json:"index,omitzero" doc:"Index of that device, for people."`
	Wave  int          `json:"wave,omitempty" doc:"Wave 1 starts at once, wave 2 when wave 1 is done, and so on; 0: the run needs no GPU, or has to wait for others."`
	Waits string       `json:"waits,omitempty" doc:"What the run waits for, if it cannot start in this plan."`
}

// PlannedStep is a step with its place, its conversions and its memory.
type PlannedStep struct {
	Name      string   `json:"name"`
	After     []string `json:"after,omitempty" doc:"The steps whose outputs the step takes."`
	Signature string   `json:"signature" doc:"The name under which the daemon keeps measurements of the step."`
	Input     string   `json:"input" doc:"Memory type that the step takes."`
	Output    string   `json:"output" doc:"Memory type that the step gives."`
	OnGPU     bool     `json:"on_gpu" doc:"Whether the step runs on the device of its run; else it runs on the CPU."`

	Conversions []Conversion `json:"conversions,omitempty" doc:"The conversions of its inputs before it runs."`

	Memory     gpu.MiB `json:"memory_mb" doc:"GPU memory of the step by itself: inputs, outputs and working memory."`
	MemoryFrom string  `json:"memory_from,omitempty" enum:"declared,learned,default" doc:"Where memory_mb comes from."`
	Measured   int     `json:"measured,omitempty" doc:"How many earlier runs of the step were measured."`

	Alive []string `json:"alive,omitempty" doc:"Earlier steps whose outputs are on the GPU while the step runs."`
	Held  gpu.MiB  `json:"held_mb" doc:"Memory of the outputs that are not its inputs but are kept for later steps."`
	Peak  gpu.MiB  `json:"peak_mb" doc:"GPU memory of the pipeline while the step runs, without the context."`

	Libraries []PlannedLibrary `json:"libraries,omitempty"`
	Seconds   gpu.Opt[float64] `json:"expected_seconds,omitzero"`
}

// The sources of an amount of memory.
const (
	MemoryDeclared = "declared" // the file says so
	MemoryLearned  = "learned"  // earlier runs measured it
	MemoryDefault  = "default"  // a guess: neither of them
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
	Version string `json:"version,omitempty" doc:"Empty if the caller did not find it out or the package has none."`
}

// PlannedLoad says what a plan puts on one device.
type PlannedLoad struct {
	GPU        string  `json:"gpu"`
	Index      int     `json:"index"`
	Name       string  `json:"name"`
	Runs       int     `json:"runs" doc:"How many runs in all."`
	SideBySide int     `json:"side_by_side" doc:"How many runs run side by side at first."`
	Waves      int     `json:"waves"`
	Waiting    int     `json:"waiting" doc:"Runs that have to wait until another lease ends."`
	Memory     gpu.MiB `json:"memory_mb" doc:"How much memory the runs lease that run side by side at first."`
}

// PlanRun asks for the leases of a plan. It has either the plan as the daemon
// answered it, or the request to make one.
type PlanRun struct {
	Plan *Plan `json:"plan,omitempty" doc:"The answer of POST /api/plans. The daemon reads only what the leases need, so you can leave out steps, and runs that you do not want now."`
	PlanRequest

	Runs    []string         `json:"runs,omitempty" doc:"The runs to start. Default: all."`
	ID      string           `json:"id,omitempty" maxLength:"128" doc:"A name for the lease, if there is one run. Default: the daemon makes one up from the name of the run."`
	PID     int              `json:"pid,omitempty" minimum:"0" doc:"The process that holds the leases; they end with it. Default: the caller."`
	Enforce string           `json:"enforce,omitempty" enum:"auto,mps,framework,watchdog,none" doc:"What enforces the memory limits, as for a lease. Default: watchdog."`
	Timeout gpu.Opt[float64] `json:"timeout_seconds,omitzero" doc:"How long to wait in all for runs that have no room now. Default: not at all."`
}

// PlanRunning says which runs got a lease.
type PlanRunning struct {
	Plan *Plan        `json:"plan,omitempty" doc:"The plan, if the daemon made it for this request."`
	Runs []RunningRun `json:"runs" doc:"In the order of the plan. If no run got its lease, the answer is a problem instead."`
}

// RunningRun is a run of a plan that has a lease, needs none, or was refused one.
type RunningRun struct {
	Name      string   `json:"name"`
	Pipeline  string   `json:"pipeline"`
	Placement string   `json:"placement" enum:"confirmed,remade,none,refused" doc:"Whether the run is on the device of the plan; none: it needs no GPU."`
	Reason    string   `json:"reason,omitempty" doc:"Why the run is on another device, or on none."`
	Planned   string   `json:"planned_gpu,omitempty" doc:"UUID of the device in the plan."`
	Lease     *Lease   `json:"lease,omitempty"`
	Problem   *Problem `json:"problem,omitempty" doc:"Why the daemon refused the lease. The code says whether it may be granted later or never."`
}

// The placements of a run.
const (
	PlacedAsPlanned = "confirmed"
	PlacedElsewhere = "remade"
	PlacedNowhere   = "none"
	PlaceRefused    = "refused"
)
