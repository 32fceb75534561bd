package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// JobRequest asks berth to run a command under a lease, as the user who asks. The job
// outlives the terminal and the daemon.
type JobRequest struct {
	Command []string `json:"command" nullable:"false" minItems:"1" maxItems:"4096" doc:"The program and its arguments. {NAME} stands for the value of a parameter." example:"[\"python\", \"train.py\", \"--lr\", \"{lr}\"]"`
	Name    string   `json:"name,omitempty" maxLength:"64" doc:"The first part of the id, which everybody can read, and the name under which the memory and the time of earlier runs are remembered. Default: the id begins with job."`

	Directory   string       `json:"directory,omitempty" maxLength:"4096" doc:"Where the command runs. Default: the home of the user."`
	Environment []string     `json:"environment,omitempty" maxItems:"65536" doc:"NAME=VALUE, at most 256 KiB. berth keeps it where only root reads it, and no answer has it. Default: HOME, USER, LOGNAME, SHELL and PATH."`
	Umask       gpu.Opt[int] `json:"umask,omitzero" doc:"Default: 0022."`
	Output      string       `json:"output,omitempty" maxLength:"4096" doc:"The file for its output; %j is the id, %n the try. A path that does not begin with / is below the directory. Default: berth-%j.log in the directory, else in the state folder of the user."`
	Error       string       `json:"error,omitempty" maxLength:"4096" doc:"The file for its errors. Default: the same as output."`

	Array  string     `json:"array,omitempty" maxLength:"1024" doc:"Numbers of tasks, as in 1-20, 1,3,7 or 0-100:10; %4 at the end runs at most 4 at a time." example:"1-20%4"`
	Params []JobParam `json:"params,omitempty" maxItems:"32" doc:"Each combination of values is a task."`

	After       []string         `json:"after,omitempty" maxItems:"1024" doc:"Jobs that must succeed before this one begins."`
	AfterAny    []string         `json:"after_any,omitempty" maxItems:"1024" doc:"Jobs that must end before it, however they end."`
	AfterFailed []string         `json:"after_failed,omitempty" maxItems:"1024" doc:"Jobs that must all end before it, and one of them not well."`
	Begin       *time.Time       `json:"begin,omitempty" doc:"It does not begin before this time."`
	Hold        bool             `json:"hold,omitempty" doc:"It does not begin until it is released by unhold."`
	Retry       int              `json:"retry,omitempty" minimum:"0" maximum:"1000" doc:"How often a task is run again that fails by its exit code, by a signal or for lack of memory."`
	Requeue     string           `json:"requeue,omitempty" enum:"machine,time" doc:"machine: a task that a reboot or the fault of a device ended is queued again, ten times at most. time: also one that reached its time limit."`
	Signal      string           `json:"signal,omitempty" maxLength:"16" doc:"The signal that the command gets before its time limit." example:"USR1"`
	Warning     gpu.Opt[float64] `json:"signal_seconds,omitzero" doc:"How long before its time limit. Default: 60."`
	CPUs        float64          `json:"cpus,omitempty" minimum:"0" maximum:"65536" doc:"How many CPUs each task may use. Default: no limit."`
	HostMemory  gpu.MiB          `json:"host_memory_mb,omitempty" minimum:"0" maximum:"1073741824" doc:"How much memory of the machine each task may use. Default: no limit."`
	Compute     int              `json:"compute_percent,omitempty" minimum:"0" maximum:"100" doc:"Share of the multiprocessors, by MPS. Default: all."`

	Lease  LeaseRequest `json:"lease,omitzero" doc:"The lease of each task. The id, parent, binding, pid, ttl, unit, scope and parts are berth's own."`
	DryRun bool         `json:"dry_run,omitempty" doc:"Check everything and answer what would be submitted and when it would begin, and submit nothing."`
}

// JobParam is a parameter of a sweep.
type JobParam struct {
	Name   string   `json:"name" maxLength:"64" pattern:"^[A-Za-z_][A-Za-z0-9_]{0,63}$"`
	Values []string `json:"values" minItems:"1" maxItems:"10000"`
}

// Job is a job, or one task of it.
type Job struct {
	// Only its owner and operators see the fields with the tag sight.

	ID      string            `json:"id" doc:"NAME-NUMBER; a task has .N behind it." example:"train-17"`
	Job     string            `json:"job,omitempty" doc:"For a task: the id of its job."`
	Name    string            `json:"name,omitempty"`
	User    string            `json:"user"`
	Service string            `json:"service,omitempty"`
	Params  map[string]string `json:"params,omitempty" sight:"owner" doc:"For a task of a sweep."`

	State string `json:"state" enum:"held,waiting,starting,running,parked,done,failed,cancelled,timed_out,lost"`
	Cause string `json:"cause,omitempty" doc:"Why it is in this state, in words: what it waits for, or why it ended so."`
	Code  string `json:"cause_code,omitempty" doc:"The kind of the cause, which never changes." example:"out_of_memory"`

	Submitted time.Time    `json:"submitted"`
	Begin     *time.Time   `json:"begin,omitempty" doc:"It does not begin before."`
	Started   *time.Time   `json:"started,omitempty"`
	Ended     *time.Time   `json:"ended,omitempty"`
	Exit      gpu.Opt[int] `json:"exit_code,omitzero" doc:"Of the command; 128 and the number of the signal that ended it. Absent: it has not ended, or nobody knows."`
	Try       int          `json:"try,omitempty" doc:"How often it was started."`
	Retry     int          `json:"retry,omitempty"`

	Priority   int              `json:"priority"`
	GPUs       int              `json:"gpus"`
	Memory     gpu.MiB          `json:"memory_mb" doc:"On each device; 0 while it waits for a size that is learned, or for a whole device."`
	Devices    []string         `json:"devices,omitempty" doc:"UUIDs of the devices that it has or had."`
	Lease      string           `json:"lease,omitempty" doc:"The id of its lease, while it has one."`
	TimeLimit  float64          `json:"time_limit_seconds,omitempty"`
	CPUs       float64          `json:"cpus,omitempty"`
	HostMemory gpu.MiB          `json:"host_memory_mb,omitempty"`
	Estimate   *Estimate        `json:"estimate,omitempty" doc:"When it will probably begin, while it waits."`
	Warning    string           `json:"warning,omitempty" doc:"What whoever submits it should know; only in the answer to that." example:"nobody knows when it starts, because chat-3 has no time limit; others pass it meanwhile"`
	After      []string         `json:"after,omitempty"`
	AfterAny   []string         `json:"after_any,omitempty"`
	AfterFail  []string         `json:"after_failed,omitempty"`
	Peak       gpu.Opt[gpu.MiB] `json:"peak_memory_mb,omitzero" doc:"The most GPU memory that it used."`
	Load       gpu.Opt[float64] `json:"mean_utilization_percent,omitzero"`
	Energy     gpu.Opt[float64] `json:"energy_joules,omitzero"`
	PeakHost   gpu.Opt[gpu.MiB] `json:"peak_host_memory_mb,omitzero" doc:"The most memory of the machine that one of its processes used."`

	Command   []string `json:"command,omitempty" sight:"owner"`
	Directory string   `json:"directory,omitempty" sight:"owner"`
	Log       string   `json:"log,omitempty" sight:"owner" doc:"The file with its output."`
	ErrorLog  string   `json:"error_log,omitempty" sight:"owner" doc:"The file with its errors, if that is another one."`
	PID       int      `json:"pid,omitempty" sight:"owner" doc:"The process that minds it."`
	Comment   string   `json:"comment,omitempty" sight:"owner"`

	Tasks *JobTasks `json:"tasks,omitempty" doc:"For a job with an array or parameters: how many tasks are in each state."`
	List  []Job     `json:"list,omitempty" doc:"Its tasks; only in the answer about one job."`
}

// Over reports whether the job has ended, however it ended. A job with tasks is over when
// all of them are.
func (j *Job) Over() bool {
	switch j.State {
	case "done", "failed", "cancelled", "timed_out", "lost":
		return true
	}
	return false
}

// Jobs lists jobs, the newest first.
type Jobs struct {
	Jobs []Job `json:"jobs" doc:"A job with an array or parameters is one entry, with the counts of its tasks."`
	More
}

// JobTasks counts the tasks of a job.
type JobTasks struct {
	Total     int `json:"total"`
	Most      int `json:"at_most,omitempty" doc:"How many run at a time at most. Absent: as many as there is room for."`
	Held      int `json:"held,omitempty"`
	Waiting   int `json:"waiting,omitempty"`
	Running   int `json:"running,omitempty" doc:"Starting and parked ones too."`
	Done      int `json:"done,omitempty"`
	Failed    int `json:"failed,omitempty"`
	Cancelled int `json:"cancelled,omitempty"`
	TimedOut  int `json:"timed_out,omitempty"`
	Lost      int `json:"lost,omitempty"`
}

// Estimate says when a request that waits will probably be granted.
type Estimate struct {
	Likely   *time.Time `json:"likely,omitempty" doc:"As likely earlier as later, if nobody comes who goes first."`
	Late     *time.Time `json:"late,omitempty" doc:"Nine times of ten it is earlier, if users go on asking for what they hold now. Absent if others might always go first then."`
	Unknown  string     `json:"unknown,omitempty" doc:"Why that is not known." example:"train-3 has no history and nobody chose its time limit"`
	Latest   *time.Time `json:"latest,omitempty" doc:"With unknown: when the time limits of all that is in the way have ended it, if it has some. That may be far later than it really begins."`
	Passable bool       `json:"passable,omitempty" doc:"With latest: somebody who asks later may go first, because of a smaller share or a priority. So it may begin later than latest."`
}

// JobChange changes a job or one of its tasks.
type JobChange struct {
	Priority gpu.Opt[int] `json:"priority,omitzero" doc:"Owners lower it, operators set it."`
}

// JobAct cancels, holds or lets go a job or one of its tasks.
type JobAct struct {
	Why string `json:"reason,omitempty" maxLength:"256" doc:"What its user and operators read about it."`
}

// JobRedo asks for a job again, under a new id.
type JobRedo struct {
	Failed bool `json:"failed,omitempty" doc:"Only the tasks that did not end well."`
}
