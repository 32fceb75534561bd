package keeper

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/text/quickjson"
	"github.com/berth-gpu/berth/internal/when/later"
)

// entry is an entry of the journal. It has one of its fields.
type entry struct {
	Submit *job.Spec `json:"submit,omitempty"`
	Change *setting  `json:"change,omitempty"`
	Tasks  *tasks    `json:"tasks,omitempty"`
	Forget int64     `json:"forget,omitempty"` // the number of a job
}

// setting is what can be changed of a job.
type setting struct {
	Number   int64     `json:"number"`
	Held     bool      `json:"held,omitempty"`
	Unheld   time.Time `json:"unheld,omitzero"`
	Priority int       `json:"priority,omitempty"`
	Met      time.Time `json:"met,omitzero"` // when the jobs that it waits for let it begin; zero: they have not, or there are none
}

// tasks gives some tasks of a job the same value.
type tasks struct {
	Number int64    `json:"number"`
	First  int      `json:"first"`
	Last   int      `json:"last"`
	Task   job.Task `json:"task"`
}

// entries writes and reads entries in a third of the time that encoding/json takes.
var entries = quickjson.Codec[entry]{Loose: true, Inline: []any{
	job.Spec{}, setting{}, tasks{}, job.Task{}, job.Range{}, job.Ref{}, api.JobParam{}, api.LeaseRequest{}, api.LeaseShare{},
}}

func (e *entry) text() []byte { return entries.Append(nil, e) }

// read reads an entry.
func (e *entry) read(text []byte) error {
	if entries.Read(text, e) {
		return nil
	}
	return json.Unmarshal(text, e)
}

// replay takes an entry of the journal in.
func (k *Keeper) replay(r journal.Entry) error {
	var e entry
	if err := e.read(r.Data); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrContradiction, err)
	}
	switch {
	case e.Submit != nil:
		if len(e.Submit.Command) == 0 || e.Submit.Tasks() < 1 || e.Submit.Tasks() > job.MostTasks {
			return fmt.Errorf("%w: job %d has no command or no task", journal.ErrContradiction, e.Submit.Number)
		}
		if k.jobs[e.Submit.Number] == nil && k.past[e.Submit.Number] == nil {
			k.add(e.Submit, int64(len(r.Data)))
		}
		return nil
	case e.Forget != 0:
		k.drop(e.Forget)
		return nil
	}
	number := int64(0)
	if e.Change != nil {
		number = e.Change.Number
	} else if e.Tasks != nil {
		number = e.Tasks.Number
	}
	j := k.jobs[number]
	switch ended := k.past[number]; {
	case ended != nil && e.Change != nil:
		ended.change(e.Change)
	case j == nil: // forgotten, of a later version of berth, or over: no task changes any more
	case e.Change != nil:
		j.apply(e.Change)
	case e.Tasks.First < 0 || e.Tasks.Last >= len(j.tasks) || e.Tasks.First > e.Tasks.Last:
		return fmt.Errorf("%w: job %d has no tasks %d to %d", journal.ErrContradiction, number, e.Tasks.First, e.Tasks.Last)
	default:
		k.put(j, e.Tasks.First, e.Tasks.Last, &e.Tasks.Task)
		k.retire(j)
	}
	return nil
}

func (j *kept) apply(s *setting) {
	j.held, j.unheld, j.priority = s.Held, s.Unheld, s.Priority
	if !s.Met.IsZero() {
		j.condition, j.met, j.noted = job.Met, s.Met, true
	}
}

// setting returns what was changed of a job.
func (j *kept) setting() *setting {
	s := &setting{Number: j.Number, Held: j.held, Unheld: j.unheld, Priority: j.priority}
	if j.condition == job.Met {
		s.Met = j.met
	}
	return s
}

// add takes in a job. Its entry has this size.
func (k *Keeper) add(s *job.Spec, size int64) *kept {
	owner := k.users[s.UID]
	if owner == nil {
		owner = &user{uid: s.UID}
		k.users[s.UID] = owner
	}
	if owner.name != s.User { // else jobs share one text
		owner.name = s.User
	}
	n := s.Tasks()
	j := &kept{
		Spec: s, owner: owner, size: size + 8*int64(n), held: s.Hold, priority: s.Priority, since: s.Submitted,
		tasks: make([]*job.Task, n), counts: map[job.State]int{job.Waiting: n}, bare: k.environments.missing(s.Environment),
	}
	owner.size += j.size + k.environments.use(s.Environment)
	owner.open += n
	k.tasks[job.Waiting] += n
	k.jobs[s.Number] = j
	at, _ := slices.BinarySearch(k.numbers, s.Number)
	k.numbers = slices.Insert(k.numbers, at, s.Number)
	for _, r := range refs(s) {
		waiting := k.waitedFor[r.Number]
		if at, there := slices.BinarySearch(waiting, s.Number); !there {
			k.waitedFor[r.Number] = slices.Insert(waiting, at, s.Number)
		}
		j.awaits++
	}
	owner.awaits += j.awaits
	return j
}

// refs returns the jobs and tasks that a job waits for, in any way.
func refs(s *job.Spec) []job.Ref { return slices.Concat(s.After, s.AfterAny, s.AfterFailed) }

// unwait notes that a job waits for no others any more.
func (k *Keeper) unwait(j *kept) {
	j.owner.awaits -= j.awaits
	j.awaits = 0
	for _, r := range refs(j.Spec) {
		waiting := k.waitedFor[r.Number]
		if at, there := slices.BinarySearch(waiting, j.Number); there {
			k.waitedFor[r.Number] = slices.Delete(waiting, at, at+1)
		}
		if len(k.waitedFor[r.Number]) == 0 {
			delete(k.waitedFor, r.Number)
		}
	}
}

// drop forgets a job.
func (k *Keeper) drop(number int64) {
	j := k.job(number)
	if j == nil {
		return
	}
	if j.past != nil {
		k.endedSum -= j.total()
		j.owner.ended -= j.total()
	}
	for s, n := range j.counts {
		k.tasks[s] -= n
	}
	delete(k.jobs, number)
	delete(k.past, number)
	delete(k.waitedFor, number)
	if at, found := slices.BinarySearch(k.numbers, number); found {
		k.numbers = slices.Delete(k.numbers, at, at+1)
	}
	j.owner.size -= j.size + k.environments.leave(j.Environment)
	if j.owner.size == 0 && j.owner.open == 0 && j.owner.busy == 0 {
		delete(k.users, j.owner.uid)
	}
}

// endedSize is about what is kept of a task that has ended besides its texts, in bytes.
const endedSize = 400

// put gives some tasks of a job a value, and counts them.
func (k *Keeper) put(j *kept, first, last int, t *job.Task) {
	ended := false
	for i := first; i <= last; i++ {
		was := j.task(i).State
		j.tasks[i] = t
		j.counts[was]--
		j.counts[t.State]++
		k.tasks[was]--
		k.tasks[t.State]++
		j.owner.count(was, -1)
		j.owner.count(t.State, 1)
		if t.State.Over() && !was.Over() {
			k.finished[t.State]++
			ended = true
		}
	}
	if ended { // they share one value
		more := int64(endedSize + len(t.Cause) + len(t.Output) + len(t.Error))
		j.size += more
		j.owner.size += more
	}
	if j.over.IsZero() && j.unfinished() == 0 {
		j.over = t.Ended
		for _, each := range j.tasks {
			if each.Ended.After(j.over) {
				j.over = each.Ended
			}
		}
	}
	if t.State.Over() && j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// unfinished returns how many tasks have not ended.
func (j *kept) unfinished() int {
	return j.counts[job.Held] + j.counts[job.Waiting] + j.counts[job.Starting] + j.counts[job.Running] + j.counts[job.Stopping]
}

// inUse returns how many tasks have a lease.
func (j *kept) inUse() int {
	return j.counts[job.Starting] + j.counts[job.Running] + j.counts[job.Stopping]
}

func (u *user) count(s job.State, by int) {
	switch {
	case s.Busy():
		u.busy += by
	case !s.Over():
		u.open += by
	}
}

// settle looks at all jobs after the journal was read.
func (k *Keeper) settle() {
	clear(k.finished) // they ended before this daemon began
	slices.SortStableFunc(k.ended, func(a, b *past) int { return a.over.Compare(b.over) })
	k.ended = slices.DeleteFunc(k.ended, func(p *past) bool { return k.past[p.number] != p })
	for _, n := range k.numbers {
		j := k.jobs[n]
		if j == nil || !j.over.IsZero() {
			continue
		}
		begun := false
		for i, t := range j.tasks {
			begun = begun || t != nil && (t.Try > 0 || !t.Since.IsZero())
			if t != nil && t.State == job.Waiting {
				j.wait(i)
			}
		}
		switch {
		case j.noted:
			k.unwait(j)
		case begun: // so it could, though an earlier berth did not write that down
			j.condition = job.Met
		default:
			k.judge(j)
		}
		k.sort(j, time.Time{})
	}
}

// update is a value for some tasks of a job.
type update struct {
	*kept
	first, last int
	task        *job.Task
	acts        []job.Act
}

// change is a change of jobs that is not yet in the journal.
type change struct {
	entries [][]byte
	size    int // of the entries, in bytes
	updates []update
	care    journal.Care
}

// set gives some tasks another value.
func (c *change) set(j *kept, first, last int, t job.Task, acts []job.Act) {
	e := entry{Tasks: &tasks{Number: j.Number, First: first, Last: last, Task: t}}
	text := e.text()
	c.entries, c.size = append(c.entries, text), c.size+len(text)
	c.updates = append(c.updates, update{j, first, last, &t, acts})
}

// A job may have many tasks that differ. They change in pieces of at most so many entries
// and about so many bytes, between which others may change jobs: a group of the journal has
// a limit, too.
const (
	mostEntries = 500
	mostBytes   = 1 << 20
)

// full reports whether the rest of a change is for another piece.
func (c *change) full() bool { return len(c.entries) >= mostEntries || c.size >= mostBytes }

// step lets an event happen to a task, whose new value is t except for its state. It
// reports whether that changes anything.
func (c *change) step(j *kept, index int, e job.Event, t job.Task) bool {
	to, acts, changes := job.Next(j.task(index).State, e)
	if !changes {
		return false
	}
	t.State = to
	c.set(j, index, index, t, acts)
	return true
}

// commit writes a change to the journal and makes it. If the journal refuses it, nothing
// has changed. The caller holds writing.
func (k *Keeper) commit(c *change) error {
	if len(c.entries) > 0 {
		if err := k.journal.Write(c.entries, c.care); err != nil {
			return err
		}
	}
	k.mu.Lock()
	for _, u := range c.updates {
		k.put(u.kept, u.first, u.last, u.task)
	}
	k.mu.Unlock()
	for _, u := range c.updates {
		k.retire(u.kept)
	}
	k.compactIfLong()
	return nil
}

// The keeper compacts its journal when it has many entries, and far more than it would
// have then. An entry may be large, so that the same holds for bytes.
const (
	compactEntries = 20_000
	compactFactor  = 4

	compactBytes       = 64 << 20
	compactBytesFactor = 2

	compactRetry = time.Minute // after a failure, for example on a full disk
)

// isLong reports whether a journal is to be compacted.
func isLong(s *journal.Stats) bool {
	bytes := s.DiskBytes - s.SnapshotBytes
	return s.LogEntries >= compactEntries && s.LogEntries >= compactFactor*s.SnapshotEntries ||
		bytes >= compactBytes && bytes >= compactBytesFactor*s.SnapshotBytes
}

// compactIfLong replaces a journal that is long, or has times from before the clock was
// set, by the present jobs, in a new goroutine; others may go on writing meanwhile. The
// caller holds writing.
func (k *Keeper) compactIfLong() {
	stats := k.journal.Stats()
	if k.stopped() || !k.rewrite && !isLong(&stats) || !k.compacting.CompareAndSwap(false, true) {
		return
	}
	rewrites := k.rewrite
	k.rewrite = false
	present, end := k.present(), k.running.Done()
	k.busy.Go(func() {
		err := k.journal.Compact(stats.LastSeq, entriesOf(present))
		failed := err != nil && !errors.Is(err, journal.ErrClosed)
		if failed {
			k.Log.Warn("the journal of jobs cannot be made smaller", "error", err)
			select {
			case <-time.After(compactRetry):
			case <-end:
			}
		}
		k.writing.Lock()
		defer k.writing.Unlock()
		k.compacting.Store(false)
		if k.rewrite = k.rewrite || failed && rewrites; k.rewrite { // it has to be done
			k.compactIfLong()
		}
	})
}

// present returns all jobs as they are now. The caller holds writing.
func (k *Keeper) present() []snapshot {
	present := make([]snapshot, 0, len(k.numbers))
	for _, n := range k.numbers {
		if p := k.past[n]; p != nil {
			present = append(present, snapshot{packed: p.packed})
			continue
		}
		j := k.jobs[n]
		s := *j.Spec
		s.Submitted = j.since
		present = append(present, snapshot{Spec: &s, setting: j.setting(), tasks: slices.Clone(j.tasks)})
	}
	return present
}

// snapshot is a job at one moment: packed if it has ended.
type snapshot struct {
	packed
	*job.Spec
	*setting
	tasks []*job.Task
}

// entriesOf yields the entries of jobs.
func entriesOf(jobs []snapshot) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, j := range jobs {
			if j.text != "" {
				if !j.entries(yield) {
					return
				}
				continue
			}
			submit, change := entry{Submit: j.Spec}, entry{Change: j.setting}
			if !yield(submit.text()) || !yield(change.text()) {
				return
			}
			for first := 0; first < len(j.tasks); first++ {
				t, last := j.tasks[first], first
				for last+1 < len(j.tasks) && j.tasks[last+1] == t {
					last++
				}
				if t != nil {
					some := entry{Tasks: &tasks{Number: j.Spec.Number, First: first, Last: last, Task: *t}}
					if !yield(some.text()) {
						return
					}
				}
				first = last
			}
		}
	}
}

// environments keeps the environments of jobs in files of their own, each once for a
// user.
type environments struct {
	folder string
	all    map[string]*environment // by name
}

type environment struct {
	jobs int // that have it
	size int64
}

// keep writes an environment, and returns its name. It is on disk when keep returns.
func (e *environments) keep(uid int, variables []string) (name string, err error) {
	text, err := json.Marshal(variables)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(strconv.Itoa(uid)+"\n"), text...))
	name = strconv.Itoa(uid) + "-" + hex.EncodeToString(sum[:])
	if e.all[name] != nil && !e.missing(name) {
		return name, nil
	}
	if err := os.Mkdir(e.folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", journal.Failed("make the folder of", "environments", err)
	}
	if err := file.Replace(e.path(name), text); err != nil {
		return "", journal.Failed("write", "environments", err)
	}
	return name, nil
}

func (e *environments) path(name string) string { return filepath.Join(e.folder, name) }

// read returns an environment. No name means none. The error passes unless the environment
// is gone or damaged.
func (e *environments) read(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(e.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, later.Because(err, 0)
	}
	if err == nil {
		text, err = file.Unseal(e.path(name), text)
	}
	var variables []string
	if err == nil {
		err = json.Unmarshal(text, &variables)
	}
	return variables, err
}

// missing reports whether the file of an environment is not there. A backup has it only if
// that was asked for.
func (e *environments) missing(name string) bool {
	if name == "" {
		return false
	}
	_, err := os.Stat(e.path(name))
	return errors.Is(err, fs.ErrNotExist)
}

// use notes that one more job has an environment, and returns its size if it is the
// first.
func (e *environments) use(name string) (more int64) {
	if name == "" {
		return 0
	}
	if e.all[name] == nil {
		e.all[name] = &environment{}
		if info, err := os.Stat(e.path(name)); err == nil {
			e.all[name].size = info.Size()
		}
		more = e.all[name].size
	}
	e.all[name].jobs++
	return more
}

// leave notes that one job less has an environment. It removes one that nobody has any
// more, and returns its size.
func (e *environments) leave(name string) (less int64) {
	one := e.all[name]
	if one == nil {
		return 0
	}
	if one.jobs--; one.jobs > 0 {
		return 0
	}
	delete(e.all, name)
	e.remove(name)
	return one.size
}

// remove removes the file of an environment, unless a job has it. If that fails, the next
// start does it.
func (e *environments) remove(name string) {
	if e.all[name] == nil && name != "" {
		_ = os.Remove(e.path(name))
	}
}

// tidy removes environments that no job has: of a submit that was cut off.
func (e *environments) tidy() error {
	found, err := os.ReadDir(e.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the environments of jobs: %w", err)
	}
	for _, each := range found {
		e.remove(each.Name())
	}
	return nil
}
