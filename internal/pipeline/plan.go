package pipeline

import "github.com/berth-gpu/berth/gpu"

// Plan says what will happen, before anything does.
type Plan struct {
	File      string    `json:"file"`
	Pipelines []Planned `json:"pipelines" doc:"In the order of the file."`
	Devices   []Load    `json:"devices" doc:"What the plan puts on each device, in order of index."`

	SideBySide int              `json:"side_by_side" doc:"How many runs on GPUs are under way at the same time at first."`
	Waves      int              `json:"waves" doc:"How many times the devices are filled until all runs are done; 0: nothing runs on a GPU, or nothing fits now."`
	Seconds    gpu.Opt[float64] `json:"expected_seconds,omitzero" doc:"For everything on GPUs, from earlier runs; absent if a step has never been measured or a run has to wait."`
	Notes      []string         `json:"notes,omitempty" doc:"What somebody should know about the plan as a whole."`
}

// Planned is a pipeline with everything decided but the moment it runs.
type Planned struct {
	Name  string        `json:"name"`
	Steps []PlannedStep `json:"steps" doc:"In the order they run."`
	Runs  []Run         `json:"runs" doc:"One, or as many as count says."`

	// What each run leases. All zero for a pipeline without GPU steps: it needs
	// nothing and gets nothing.
	Memory   gpu.MiB `json:"memory_mb" doc:"Peak and context together."`
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

// Run is one execution of a pipeline.
type Run struct {
	Name  string       `json:"name" example:"plate[3]"`
	GPU   string       `json:"gpu,omitempty" doc:"UUID of the device for all its GPU steps; empty: it needs none."`
	Index gpu.Opt[int] `json:"index,omitzero" doc:"Index of that device, for people."`
	Wave  int          `json:"wave,omitempty" doc:"1 starts at once, 2 when those are done, and so on; 0: it needs no GPU, or has to wait for others."`
	Waits string       `json:"waits,omitempty" doc:"What it waits for, if it cannot start in this plan."`
}

// PlannedStep is a step with its place, its conversions and its memory.
type PlannedStep struct {
	Name      string     `json:"name"`
	After     []string   `json:"after,omitempty" doc:"The steps whose outputs it takes."`
	Signature string     `json:"signature" doc:"What measurements of it are kept under."`
	Input     MemoryType `json:"input"`
	Output    MemoryType `json:"output"`
	OnGPU     bool       `json:"on_gpu" doc:"It runs on the device of its run; else on the CPU."`

	Conversions []Conversion `json:"conversions,omitempty" doc:"What happens to its inputs before it runs."`

	Memory     gpu.MiB `json:"memory_mb" doc:"GPU memory of the step by itself: inputs, outputs and what it works with."`
	MemoryFrom Source  `json:"memory_from,omitempty" enum:"declared,learned,default" doc:"Where that number is from."`
	Measured   int     `json:"measured,omitempty" doc:"How many earlier runs were measured."`

	Alive []string `json:"alive,omitempty" doc:"Earlier steps whose outputs are on the GPU while it runs."`
	Held  gpu.MiB  `json:"held_mb" doc:"Memory of those outputs that are not its inputs: kept for later steps."`
	Peak  gpu.MiB  `json:"peak_mb" doc:"GPU memory of the pipeline while it runs, without the context."`

	Libraries []Needed         `json:"libraries,omitempty"`
	Seconds   gpu.Opt[float64] `json:"expected_seconds,omitzero"`
}

// Source is where an amount of memory is from.
type Source string

// The sources.
const (
	Declared Source = "declared" // the file says so
	Learned  Source = "learned"  // earlier runs measured it
	Default  Source = "default"  // nobody knows
)

// Needed is a Python package that a step imports.
type Needed struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty" doc:"Empty if it was not asked for or does not say."`
}

// Load is what a plan puts on one device.
type Load struct {
	GPU        string  `json:"gpu"`
	Index      int     `json:"index"`
	Name       string  `json:"name"`
	Runs       int     `json:"runs" doc:"In all."`
	SideBySide int     `json:"side_by_side" doc:"Under way at the same time at first."`
	Waves      int     `json:"waves"`
	Waiting    int     `json:"waiting" doc:"Runs that have to wait for others to give something back."`
	Memory     gpu.MiB `json:"memory_mb" doc:"Leased by those that are side by side at first."`
}
