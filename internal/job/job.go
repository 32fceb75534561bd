// Package job decides what becomes of the jobs that users submit.
//
// A job is a command that berth itself runs under a lease. A job with an array or with
// parameters has several tasks; any other has one. Package job/keeper keeps jobs and
// makes what is decided here true.
//
// The life of a task is a table: Next. What the end of a command means for its task,
// which is the next event of that table, is what Judge says. docs/develop/jobs.md draws
// the table, and a test compares the two.
//
// Pure: no clock, no I/O.
package job

import (
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// Spec is a job as it was submitted. It never changes.
type Spec struct {
	Number    int64     `json:"number"`
	Name      string    `json:"name"`             // first part of the id
	Called    string    `json:"called,omitempty"` // the name that the user gave it; may be empty
	UID       int       `json:"uid"`
	User      string    `json:"user"`
	Submitted time.Time `json:"submitted"`

	Command     []string `json:"command"`
	Directory   string   `json:"directory,omitempty"`   // empty: the home of the user
	Environment string   `json:"environment,omitempty"` // where it is kept; empty: the plain one
	Umask       int      `json:"umask"`
	Output      string   `json:"output,omitempty"`
	Error       string   `json:"error,omitempty"`

	Array  Array          `json:"array,omitempty"` // beside parameters: which of their combinations, counted from 1
	Params []api.JobParam `json:"params,omitempty"`
	Most   int            `json:"most,omitempty"` // tasks that run at a time; 0: any number

	After       []Ref `json:"after,omitempty"`
	AfterAny    []Ref `json:"after_any,omitempty"`
	AfterFailed []Ref `json:"after_failed,omitempty"`

	Begin    time.Time     `json:"begin,omitzero"`
	Hold     bool          `json:"hold,omitempty"`
	Retry    int           `json:"retry,omitempty"`
	Requeue  Repeat        `json:"requeue,omitempty"`
	Signal   string        `json:"signal,omitempty"`
	Warning  time.Duration `json:"warning,omitempty"` // how long before the time limit Signal comes
	CPUs     float64       `json:"cpus,omitempty"`
	Host     gpu.MiB       `json:"host_memory_mb,omitempty"`
	Compute  int           `json:"compute_percent,omitempty"`
	Priority int           `json:"priority,omitempty"`

	Lease api.LeaseRequest `json:"lease"` // of each task
}

// Repeat says when a task that did not end by itself is queued again.
type Repeat string

// The values. The zero value means never.
const (
	OnMachine Repeat = "machine" // after a reboot or the fault of a device
	OnTime    Repeat = "time"    // also after its time limit
)

// The limits of a job.
const (
	MostTasks   = 100_000
	MostNumber  = 1_000_000_000 // of a task
	MostRetries = 1000
	NameLength  = 64
)

// ID returns the id of the job.
func (s *Spec) ID() string { return s.Name + "-" + strconv.FormatInt(s.Number, 10) }

// Many reports whether the job has an array or parameters, so that its tasks have ids of
// their own.
func (s *Spec) Many() bool { return len(s.Array) > 0 || len(s.Params) > 0 }

// Tasks returns how many tasks the job has.
func (s *Spec) Tasks() int {
	if len(s.Array) > 0 {
		return s.Array.Len()
	}
	n := 1
	for _, p := range s.Params {
		n *= len(p.Values)
	}
	return n
}

// TaskNumber returns the number of the task at an index: for an array as the user wrote
// it, for parameters the combination, counted from 1.
func (s *Spec) TaskNumber(index int) int {
	switch {
	case len(s.Array) > 0:
		return s.Array.At(index)
	case len(s.Params) > 0:
		return index + 1
	}
	return 0
}

// TaskIndex returns the index of the task with a number.
func (s *Spec) TaskIndex(number int) (index int, known bool) {
	switch {
	case len(s.Array) > 0:
		return s.Array.Index(number)
	case len(s.Params) > 0:
		return number - 1, number >= 1 && number <= s.Tasks()
	}
	return 0, number == 0
}

// TaskID returns the id of the task at an index. The only task of a job has the id of the
// job.
func (s *Spec) TaskID(index int) string {
	if !s.Many() {
		return s.ID()
	}
	return s.ID() + "." + strconv.Itoa(s.TaskNumber(index))
}

// Run returns the name of one run of a task. It consists of numbers alone, so that it can
// be the name of a file or of a unit whatever users call their jobs.
func (s *Spec) Run(index, try int) string {
	return strconv.FormatInt(s.Number, 10) + "." + strconv.Itoa(s.TaskNumber(index)) + "." + strconv.Itoa(try)
}

// ParamValues returns the value of each parameter for the task at an index. The last
// parameter changes fastest.
func (s *Spec) ParamValues(index int) map[string]string {
	if len(s.Params) == 0 {
		return nil
	}
	values, index := make(map[string]string, len(s.Params)), s.TaskNumber(index)-1
	for i := len(s.Params) - 1; i >= 0; i-- {
		p := &s.Params[i]
		values[p.Name] = p.Values[index%len(p.Values)]
		index /= len(p.Values)
	}
	return values
}

// CommandOf returns the command of the task at an index, with the values of its
// parameters.
func (s *Spec) CommandOf(index int) []string {
	if len(s.Params) == 0 {
		return s.Command
	}
	pairs := make([]string, 0, 4*len(s.Params))
	for name, value := range s.ParamValues(index) {
		pairs = append(pairs, "{"+name+"}", value, "${"+name+"}", "${"+name+"}") // a variable of a shell stays what it is
	}
	with, command := strings.NewReplacer(pairs...), make([]string, len(s.Command))
	for i, word := range s.Command {
		command[i] = with.Replace(word)
	}
	return command
}

// LongestCommand returns the length of the longest command that CommandOf returns, in
// bytes. A short template may have commands of gigabytes.
func (s *Spec) LongestCommand() int {
	n := 0
	for _, word := range s.Command {
		n += len(word)
		for _, p := range s.Params {
			name, longest := "{"+p.Name+"}", 0
			for _, value := range p.Values {
				longest = max(longest, len(value))
			}
			n += (strings.Count(word, name) - strings.Count(word, "$"+name)) * (longest - len(name))
		}
	}
	return n
}

// Variables returns what the program of the task at an index finds in its environment
// beside that of its lease.
func (s *Spec) Variables(index int) []string {
	all := []string{"BERTH_JOB=" + s.ID()}
	if s.Many() {
		all = append(all, "BERTH_TASK="+strconv.Itoa(s.TaskNumber(index)))
	}
	values := s.ParamValues(index)
	for _, p := range s.Params {
		all = append(all, "BERTH_PARAM_"+p.Name+"="+values[p.Name])
	}
	return all
}

// LogName returns the path of a log for a run, from the pattern of the user: %j is the id
// of the task, %n the try, %% a percent sign. It is empty if the pattern is.
func (s *Spec) LogName(pattern string, index, try int) string {
	return strings.NewReplacer("%%", "%", "%j", s.TaskID(index), "%n", strconv.Itoa(try)).Replace(pattern)
}

// DefaultLog returns the name of the log of a run for which the user chose none. A later
// try has a log of its own.
func (s *Spec) DefaultLog(index, try int) string {
	if try > 1 {
		return "berth-" + s.TaskID(index) + "-try" + strconv.Itoa(try) + ".log"
	}
	return "berth-" + s.TaskID(index) + ".log"
}

// Task is what is known of a task. Whoever changes a task makes another value.
type Task struct {
	State State  `json:"state"`
	Code  Code   `json:"code,omitempty"`  // kind of the cause
	Cause string `json:"cause,omitempty"` // why it is in this state, in words

	Since     time.Time `json:"since,omitzero"`      // its age in the queue counts from here; zero: it was not there since it last ran
	NotBefore time.Time `json:"not_before,omitzero"` // the end of its pause

	Try      int `json:"try,omitempty"`      // how often a minder was started for it
	Failures int `json:"failures,omitempty"` // how often it failed in a way that Retry counts
	Requeues int `json:"requeues,omitempty"` // how often it was queued again without its fault
	Vain     int `json:"vain,omitempty"`     // how often in a row its command was not reached

	Fence   uint64    `json:"fence,omitempty"` // of its lease
	Devices []string  `json:"devices,omitempty"`
	Memory  gpu.MiB   `json:"memory_mb,omitempty"`
	Granted time.Time `json:"granted,omitzero"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`

	Overran bool `json:"overran,omitempty"` // it has reached its time limit
	Warned  bool `json:"warned,omitempty"`  // it got the signal that announces that

	Exit     gpu.Opt[int]     `json:"exit,omitzero"`
	PID      int              `json:"pid,omitempty"` // of its minder
	Output   string           `json:"output,omitempty"`
	Error    string           `json:"error,omitempty"`
	Peak     gpu.Opt[gpu.MiB] `json:"peak_mb,omitzero"`
	PeakHost gpu.Opt[gpu.MiB] `json:"peak_host_mb,omitzero"`
	Load     gpu.Opt[float64] `json:"load,omitzero"`
	Energy   gpu.Opt[float64] `json:"energy,omitzero"`
}
