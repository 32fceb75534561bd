package keeper

import (
	"time"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job"
)

// Restoration says what became of jobs that were restored.
type Restoration struct {
	Lost int `json:"lost"` // tasks that ran, and whose programs nobody minds any more
	Held int `json:"held"` // jobs without their environments
}

// Restore makes the jobs of a backup ready for a daemon. Tasks that ran are lost, unless
// runs reports that the record of their run is there: a daemon would start them a second
// time. Jobs that have not begun and whose environments are not in the folder are held.
func Restore(folder string, now time.Time, runs func(run string) bool, open func(replay func(journal.Entry) error) (journal.Journal, error)) (did Restoration, err error) {
	k := newKeeper(Options{Folder: folder})
	log, err := open(k.replay)
	if err != nil {
		return did, err
	}
	c := change{care: journal.Care{Durable: true, Reserve: true}}
	for _, n := range k.numbers {
		j := k.jobs[n]
		if j == nil || !j.over.IsZero() {
			continue
		}
		for i := range j.tasks {
			t := *j.task(i)
			if !t.State.Busy() || runs(j.running(i).name()) {
				continue
			}
			event := job.Lose
			if t.State == job.Stopping { // somebody had cancelled it
				event = job.Fail
			} else {
				t.Code, t.Cause = job.ByRestore, "it ran when the backup was made that the state was restored from, and berth does not know its program any more"
			}
			t.Ended, t.PID = now, 0
			if c.step(j, i, event, t) {
				did.Lost++
			}
		}
		if j.bare && j.unfinished() > j.inUse() {
			did.Held++
			s := j.setting()
			s.Held = true
			e := entry{Change: s}
			c.entries = append(c.entries, e.text())
		}
	}
	k.journal.Journal, k.journal.Notify = log, func(error) {}
	err = k.commit(&c)
	if other := log.Close(); err == nil {
		err = other
	}
	return did, err
}

// Check returns a function that takes the entries of a journal in, as a daemon that starts
// does, and complains about those that make no sense.
func Check() func(journal.Entry) error { return newKeeper(Options{}).replay }
