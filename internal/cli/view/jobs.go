package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Jobs shows a list of jobs: those of one user first.
type Jobs struct {
	api.Jobs
	GPUs     GPUs
	Me       string // the user whose jobs come first
	Filtered bool   // the user asked for only some of them
}

// Lines writes the table for a screen.
func (s *Jobs) Lines(to term.Screen) []string {
	if len(s.Jobs.Jobs) == 0 {
		if s.Filtered {
			return []string{"No job matches."}
		}
		return []string{"There is no job. Submit one: berth submit --memory 8GiB -- python train.py"}
	}
	jobs := slices.Clone(s.Jobs.Jobs)
	slices.SortStableFunc(jobs, func(a, b api.Job) int {
		return cmp.Or(cmp.Compare(others(a, s.Me), others(b, s.Me)), CompareJobs(a, b))
	})
	lines := append(s.table(jobs, to).Lines(to.Width, to.Painter), "", to.Hang(term.Plain, "", jobTotals(jobs)))
	if s.Note != "" {
		lines = append(lines, to.Hang(term.Plain, "", s.Note))
	}
	return lines
}

// others returns 0 for a job of a user, and 1 for those of others.
func others(j api.Job, user string) int {
	if j.User == user {
		return 0
	}
	return 1
}

// stages orders the states of jobs as a table lists them: what runs, what waits, what has
// ended.
var stages = map[string]int{"running": 1, "parked": 1, "starting": 1, "waiting": 2, "held": 3}

// CompareJobs orders jobs by stage, and within it the oldest first; of those that have
// ended, the newest end first.
func CompareJobs(a, b api.Job) int {
	const ended = 4
	stageA, stageB := cmp.Or(stages[a.State], ended), cmp.Or(stages[b.State], ended)
	if stageA != stageB {
		return cmp.Compare(stageA, stageB)
	}
	if stageA == ended {
		return jobEnd(b).Compare(jobEnd(a))
	}
	return a.Submitted.Compare(b.Submitted)
}

func jobEnd(j api.Job) time.Time {
	if j.Ended != nil {
		return *j.Ended
	}
	return j.Submitted
}

// table returns the richest table of the jobs that fits. It never cuts an id, because
// other commands take it, nor a note, which is why one looks.
func (s *Jobs) table(jobs []api.Job, to term.Screen) *term.Table {
	note, poor := map[string]int{"NOTE": 18}, []string{"GiB", "GPU", "TIME"}
	return richest(to.Width, []layout{
		{least: note}, {without: poor[:1], least: note}, {without: poor, least: note}, {without: poor, least: map[string]int{"ID": 20, "NOTE": 24}},
		{without: poor, least: map[string]int{"ID": 20, "USER": 6, "NOTE": 16}},
	}, func(l layout) *term.Table {
		return tableIn(l, jobs, chosen(JobColumns(s.GPUs, to.Now), "ID", "USER", "STATE", "GPU", "GiB", "TIME", "NOTE"))
	})
}

// JobColumns returns the columns of jobs and of tasks, which run on these devices.
func JobColumns(x GPUs, now time.Time) []Column[api.Job] {
	return []Column[api.Job]{
		{term.Column{Title: "ID", Fold: true}, func(j api.Job) term.Cell { return term.Text(term.Clean(j.ID)) }},
		{term.Column{Title: "TASK"}, func(j api.Job) term.Cell { return term.Text(term.Clean(j.ID)) }},
		{term.Column{Title: "USER"}, func(j api.Job) term.Cell { return term.Text(term.Clean(j.User)) }},
		{term.Column{Title: "STATE"}, jobState},
		{term.Column{Title: "EXIT", Right: true}, func(j api.Job) term.Cell { return term.Text(cmp.Or(exitWord(j), "-")) }},
		{term.Column{Title: "GPU", Right: true}, func(j api.Job) term.Cell { return term.Text(x.indexes(j.Devices)) }},
		{term.Column{Title: "GiB", Right: true}, func(j api.Job) term.Cell { return term.Text(jobMemory(j)) }},
		{term.Column{Title: "TIME", Right: true}, func(j api.Job) term.Cell { return term.Text(jobTime(j, now)) }},
		{term.Column{Title: "PARAMETERS", Least: 12}, func(j api.Job) term.Cell { return term.Text(term.Clean(paramsOf(j.Params))) }},
		{term.Column{Title: "NOTE", Least: 16, Fold: true}, func(j api.Job) term.Cell { return term.Text(JobNote(j, now)) }},
	}
}

// exitWord returns the exit code of a job, or "" if it has none.
func exitWord(j api.Job) string {
	if code, known := j.Exit.Get(); known {
		return strconv.Itoa(code)
	}
	return ""
}

// jobState returns the state of a job in words, and in a colour.
func jobState(j api.Job) term.Cell {
	text := strings.ReplaceAll(term.Clean(j.State), "_", " ")
	switch j.State {
	case "running":
		return term.Painted(text, term.Green)
	case "failed", "timed_out", "lost":
		return term.Painted(text, term.Red)
	case "held", "parked", "cancelled":
		return term.Painted(text, term.Yellow)
	case "done":
		return term.Painted(text, term.Dim)
	}
	return term.Text(text)
}

// indexes names devices by their indexes.
func (x GPUs) indexes(uuids []string) string {
	var list []string
	for _, uuid := range uuids {
		index, known := x[uuid]
		if !known {
			return "gone"
		}
		list = append(list, strconv.Itoa(index))
	}
	return cmp.Or(strings.Join(list, ","), "-")
}

// jobMemory returns how much a job has or asks for on each device.
func jobMemory(j api.Job) string {
	text := "-"
	if j.Memory > 0 {
		text = gib(j.Memory)
	}
	if j.GPUs > 1 {
		text = fmt.Sprintf("%d × %s", j.GPUs, text)
	}
	return text
}

// jobTime returns how long a job has waited, runs, or ran.
func jobTime(j api.Job, now time.Time) string {
	switch {
	case j.Started != nil && j.Ended != nil:
		return words.Age(j.Ended.Sub(*j.Started))
	case j.Over():
		return "-"
	case j.Started != nil:
		return words.Age(now.Sub(*j.Started))
	}
	return words.Age(now.Sub(j.Submitted))
}

// JobNote returns what matters most about a job beside its state.
func JobNote(j api.Job, now time.Time) string {
	var notes []string
	if j.Tasks != nil {
		notes = append(notes, tasksNote(*j.Tasks))
	}
	code, exited := j.Exit.Get()
	switch {
	case j.State == "done", j.Over() && j.Tasks != nil: // the counts of the tasks say it
	case j.State == "waiting":
		starts := given("starts ", estimated(j, now))
		if e := j.Estimate; starts != "" && e.Likely == nil { // in a column; berth job says all of it
			reason, _, _ := strings.Cut(term.Clean(e.Unknown), " and ")
			starts = "start unknown, " + strings.Replace(reason, " has no time limit", " has no end", 1)
		}
		if j.Code != "queue" || starts == "" { // that it waits for its turn says less than when that is
			notes = append(notes, term.Clean(j.Cause))
		}
		notes = append(notes, starts)
	case j.Cause != "":
		notes = append(notes, term.Clean(j.Cause))
	case j.State == "failed" && exited:
		notes = append(notes, fmt.Sprintf("exit code %d", code))
	}
	if j.Try > 1 && !j.Over() {
		notes = append(notes, fmt.Sprintf("try %d", j.Try))
	}
	if j.Ended != nil {
		notes = append(notes, words.Age(now.Sub(*j.Ended))+" ago")
	}
	return strings.Join(slices.DeleteFunc(notes, func(s string) bool { return s == "" }), ", ")
}

// estimated says when a job will probably begin. It returns "" if
// nobody says, or if nobody knows because of what the job waits for.
func estimated(j api.Job, now time.Time) string {
	e := j.Estimate
	switch {
	case e == nil || e.Likely == nil && (e.Unknown == "" || e.Unknown == j.Cause):
		return ""
	case e.Likely == nil:
		text := "not known, because " + term.Clean(e.Unknown)
		if e.Latest != nil {
			text += "; at the latest in " + until(*e.Latest, now) + unpassed(e)
		}
		return text
	case !e.Likely.After(now):
		return "soon"
	}
	text := "in about " + until(*e.Likely, now)
	switch {
	case e.Late == nil:
		text += ", if nobody comes who goes first"
	case e.Late.After(*e.Likely) && until(*e.Late, now) != until(*e.Likely, now):
		text += ", probably within " + until(*e.Late, now)
	}
	return text
}

// until returns how long it is until a time, rounded to the nearest: 8 h for 7 h and 59
// minutes.
func until(t, now time.Time) string { return words.Duration(t.Sub(now).Round(time.Second)) }

// taskCounts returns the numbers of tasks in each state, in the order of a life, with the
// words for them.
func taskCounts(t api.JobTasks) []struct {
	n    int
	word string
} {
	return []struct {
		n    int
		word string
	}{{t.Running, "running"}, {t.Waiting, "waiting"}, {t.Held, "held"}, {t.Done, "done"}, {t.Failed, "failed"}, {t.TimedOut, "timed out"}, {t.Cancelled, "cancelled"}, {t.Lost, "lost"}}
}

// tasksNote says how many tasks a job has in each state.
func tasksNote(t api.JobTasks) string {
	var parts []string
	for _, c := range taskCounts(t) {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.word))
		}
	}
	return fmt.Sprintf("%s: %s", words.Count(t.Total, "task"), strings.Join(parts, ", "))
}

// atATime says how many tasks of a job run at a time.
func atATime(t api.JobTasks) string {
	if t.Most == 0 {
		return ""
	}
	return fmt.Sprintf(", at most %d at a time", t.Most)
}

// jobTotals counts jobs and their tasks by state.
func jobTotals(jobs []api.Job) string {
	counts, tasks := map[string]int{}, 0
	for _, j := range jobs {
		if j.Tasks == nil {
			counts[strings.ReplaceAll(j.State, "_", " ")]++
			tasks++
			continue
		}
		tasks += j.Tasks.Total
		for _, c := range taskCounts(*j.Tasks) {
			counts[c.word] += c.n
		}
	}
	all := words.Count(len(jobs), "job")
	if tasks != len(jobs) {
		all += " with " + words.Count(tasks, "task")
	}
	states := counted(counts, "running", "starting", "parked", "waiting", "held", "done", "failed", "timed out", "cancelled", "lost")
	return strings.Join(append([]string{all}, states...), " · ")
}

// Job shows everything about one job or task.
type Job struct {
	api.Job
	Indexes GPUs
	Tail    []string // the end of its log, if it failed
}

const (
	mostTail = 5  // lines of a log that are shown
	deepest  = 20 // columns of their indentation that are kept
)

// Lines writes the job for a screen.
func (s *Job) Lines(to term.Screen) []string {
	state := jobState(s.Job)
	lines := []string{to.Paint(term.Bold, term.Clean(s.ID)) + "  " + to.Paint(state.Colour, state.Text+s.since(to.Now))}
	lines = append(lines, factLines(s.facts(to), 11, to)...)
	if len(s.Tail) > 0 {
		lines = append(lines, "", to.Paint(term.Dim, "  the end of its log:"))
		for _, text := range s.Tail[max(len(s.Tail)-mostTail, 0):] {
			text = term.Clean(text)
			said := strings.TrimLeft(text, " ")
			lines = append(lines, to.Hang(term.Plain, "    "+strings.Repeat(" ", min(len(text)-len(said), deepest)), said))
		}
	}
	if len(s.List) > 0 {
		lines = append(lines, "")
		lines = append(lines, s.tasks(to).Lines(to.Width, to.Painter)...)
	}
	return lines
}

// since says how long the job is in its state.
func (s *Job) since(now time.Time) string {
	switch {
	case s.Ended != nil:
		return " " + words.Age(now.Sub(*s.Ended)) + " ago"
	case s.Over():
		return ""
	case s.Started != nil:
		return " for " + words.Age(now.Sub(*s.Started))
	}
	return " for " + words.Age(now.Sub(s.Submitted))
}

func (s *Job) facts(to term.Screen) []fact {
	tasks := ""
	if s.Tasks != nil {
		tasks = tasksNote(*s.Tasks) + atATime(*s.Tasks)
	}
	return []fact{
		{"why", s.why()},
		{"exit code", exitWord(s.Job)},
		{"tasks", tasks},
		{"start", unlessOver(s.Job, startOf(s.Job, to.Now))},
		{"after", afterOf(s.Job)},
		{"user", Join(s.User, given("service ", s.Service))},
		{"parameters", paramsOf(s.Params)},
		{"command", ShellLine(s.Command)},
		{"folder", s.Directory},
		{"log", s.Log},
		{"errors", s.ErrorLog},
		{"submitted", moment(&s.Submitted, to.Now)},
		{"started", Join(moment(s.Started, to.Now), s.tries())},
		{"waited", s.waited()},
		{"ran", s.ran(to.Now)},
		{"GPUs", s.Indexes.hadOn(s.Job)},
		{"memory", Join(s.asked(), peakOf(s.Peak))},
		{"load", optionalWord(s.Load, "%.0f %% on average")},
		{"energy", energyWord(s.Energy)},
		{"machine", s.host()},
		{"priority", priorityWord(s.Priority)},
		{"lease", s.Lease},
		{"minder", pidWord(s.PID)},
		{"comment", s.Comment},
	}
}

// why says why the job is in its state. A program that ran out of memory says so itself,
// and often before anybody could measure it.
func (s *Job) why() string {
	code := job.Code(s.Code)
	if (code == job.ByExitCode || code == job.BySignal) && slices.ContainsFunc(s.Tail, job.SaysOutOfMemory) {
		return s.Cause + ". Its log says that the memory of a GPU ran out"
	}
	return s.Cause
}

// unlessOver returns a text about a job that has not ended.
func unlessOver(j api.Job, text string) string {
	if j.Over() {
		return ""
	}
	return text
}

// startOf says when a job begins that has not begun.
func startOf(j api.Job, now time.Time) string {
	begin := ""
	if j.Begin != nil && j.Begin.After(now) {
		begin = "not before " + moment(j.Begin, now)
	}
	if j.Started != nil {
		return ""
	}
	return Join(begin, estimated(j, now))
}

// afterOf says which jobs come before a job.
func afterOf(j api.Job) string {
	var parts []string
	for _, c := range []struct {
		ids  []string
		text string
	}{{j.After, "succeeded"}, {j.AfterAny, "ended"}, {j.AfterFail, "ended, and not all of them well"}} {
		if len(c.ids) > 0 {
			parts = append(parts, "when "+words.And(c.ids)+words.Form(len(c.ids), " has ", " have ")+c.text)
		}
	}
	return strings.Join(parts, "; ")
}

// paramsOf writes the parameters of a task, as in bs=32 lr=0.1.
func paramsOf(params map[string]string) string {
	var parts []string
	for name, value := range params {
		parts = append(parts, name+"="+words.Shell(value))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// ShellLine writes a command as a shell takes it, on one line.
func ShellLine(command []string) string {
	var quoted []string
	for _, word := range command {
		if first, _, more := strings.Cut(strings.TrimSpace(word), "\n"); more {
			word = first + " …" // a script
		}
		quoted = append(quoted, words.Shell(word))
	}
	return strings.Join(quoted, " ")
}

// moment writes a time and how long ago or ahead it is, or "" if there is none.
func moment(t *time.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	at := t.In(now.Location()).Format("2006-01-02 15:04:05")
	if t.After(now) {
		return at + ", in " + until(*t, now)
	}
	return at + ", " + words.Age(now.Sub(*t)) + " ago"
}

func (s *Job) tries() string {
	switch {
	case s.Retry > 0 && s.Try > 0:
		return fmt.Sprintf("try %d of at most %d", s.Try, s.Retry+1)
	case s.Try > 1:
		return fmt.Sprintf("try %d", s.Try)
	}
	return ""
}

func (s *Job) waited() string {
	if s.Started == nil || s.Tasks != nil {
		return ""
	}
	return words.Duration(s.Started.Sub(s.Submitted))
}

// ran says how long the job runs or ran, and its limit.
func (s *Job) ran(now time.Time) string {
	limit := ""
	if s.TimeLimit > 0 {
		limit = "limit " + words.Duration(time.Duration(s.TimeLimit*float64(time.Second)))
	}
	if s.Started == nil || s.Tasks != nil {
		return limit
	}
	switch {
	case s.Ended != nil:
		return Join(words.Duration(s.Ended.Sub(*s.Started)), limit)
	case s.Over(): // nobody knows when it ended
		return limit
	}
	return Join(words.Duration(now.Sub(*s.Started)), limit)
}

// hadOn says on how many devices a job runs, and on which.
func (x GPUs) hadOn(j api.Job) string {
	if len(j.Devices) == 0 {
		return words.Count(max(j.GPUs, 1), "GPU")
	}
	var names []string
	for _, uuid := range j.Devices {
		names = append(names, x.Name(uuid))
	}
	return words.And(names)
}

func (s *Job) asked() string {
	if s.Memory == 0 {
		return ""
	}
	return s.Memory.String() + words.Form(max(s.GPUs, 1), "", " on each")
}

func peakOf(peak gpu.Opt[gpu.MiB]) string {
	if m, known := peak.Get(); known {
		return "used at most " + m.String()
	}
	return ""
}

func energyWord(e gpu.Opt[float64]) string {
	if joules, known := e.Get(); known {
		return gpu.Joules(joules).String()
	}
	return ""
}

// host says what the job may use of the machine, and what it used.
func (s *Job) host() string {
	cpus, memory, peak := "", "", ""
	if s.CPUs > 0 {
		cpus = "at most " + strconv.FormatFloat(s.CPUs, 'g', -1, 64) + words.Form(int(s.CPUs), " CPU", " CPUs")
	}
	if s.HostMemory > 0 {
		memory = "at most " + s.HostMemory.String() + " of memory"
	}
	if m, known := s.PeakHost.Get(); known {
		peak = "used " + m.String() + " of memory in one process"
	}
	return Join(cpus, memory, peak)
}

func priorityWord(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func pidWord(pid int) string {
	if pid == 0 {
		return ""
	}
	return "process " + strconv.Itoa(pid)
}

// tasks returns the table of the tasks of a job.
func (s *Job) tasks(to term.Screen) *term.Table {
	some := func(title string, has func(api.Job) bool) string {
		return when(slices.ContainsFunc(s.List, has), title)
	}
	params, note := some("PARAMETERS", func(j api.Job) bool { return len(j.Params) > 0 }), some("NOTE", func(j api.Job) bool { return JobNote(j, to.Now) != "" })
	return tableOf(s.List, chosen(JobColumns(s.Indexes, to.Now), "TASK", "STATE", "EXIT", "GPU", "TIME", params, note))
}

// ends says of a job in a state how it ended.
var ends = map[string]string{"done": "is done", "failed": "failed", "timed_out": "timed out", "cancelled": "was cancelled", "lost": "is lost"}

// JobEnd says in one line how a job ended.
func JobEnd(j api.Job) string {
	text := term.Clean(j.ID) + " " + cmp.Or(ends[j.State], "is "+jobState(j).Text)
	code, exited := j.Exit.Get()
	switch {
	case j.Tasks != nil:
		return text + ": " + tasksNote(*j.Tasks)
	case j.State == "done" && j.Started != nil && j.Ended != nil:
		return text + " after " + words.Duration(j.Ended.Sub(*j.Started))
	case j.State == "done":
		return text
	case strings.HasPrefix(j.Cause, "cancelled "):
		return term.Clean(j.ID + " was " + j.Cause)
	case j.Cause != "":
		return text + ": " + term.Clean(j.Cause)
	case exited:
		return text + fmt.Sprintf(": exit code %d", code)
	}
	return text
}

// JobHeld says whether a job is held or waits.
func JobHeld(j api.Job, _ term.Screen) string {
	if j.State == "held" {
		return term.Clean(j.ID) + " is held: it does not start before berth unhold " + words.Shell(term.Clean(j.ID))
	}
	return term.Clean(j.ID) + " is " + jobState(j).Text
}

// JobPriority says which priority a job has.
func JobPriority(j api.Job, _ term.Screen) string {
	return fmt.Sprintf("%s has priority %d", term.Clean(j.ID), j.Priority)
}

// JobCancelled says what becomes of a job that is cancelled.
func JobCancelled(j api.Job, _ term.Screen) string {
	if j.Over() {
		return JobEnd(j)
	}
	return term.Clean(j.ID) + " is being ended: SIGTERM now, SIGKILL if it does not end in time"
}

// JobWould says what a job would ask for, and when it would begin.
func JobWould(j api.Job, to term.Screen) []string {
	what := words.Count(max(j.GPUs, 1), "GPU")
	if j.Memory > 0 {
		what = Amount(j.Memory, 0) + " on " + what
	}
	text := "It would ask for " + what
	if j.Tasks != nil {
		text += " for each of " + words.Count(j.Tasks.Total, "task") + atATime(*j.Tasks)
	}
	lines := []string{to.Hang(term.Plain, "", text+". Nothing was submitted.")}
	cause := words.UpperFirst(j.Cause)
	if j.Code == "before_queue" {
		cause = "" // of a job that waits
	}
	starts := "It would start "
	if j.Estimate != nil && j.Estimate.Likely == nil {
		starts = "Its start: "
	}
	for _, more := range []string{given(starts, startOf(j, to.Now)), cause} {
		if more != "" {
			lines = append(lines, to.Hang(term.Plain, "", term.Clean(strings.TrimSuffix(more, "."))+"."))
		}
	}
	return lines
}
