package daemon

import (
	"context"
	"maps"
	"time"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/history/hours"
	"github.com/berth-gpu/berth/internal/history/series"
	"github.com/berth-gpu/berth/internal/process"
)

// keepHoursEvery is how often the sums are written while nothing changes: the next daemon
// reads the journal from then on.
const keepHoursEvery = 5 * time.Minute

// addedUp is the file of the sums of what users and services had over time.
type addedUp struct {
	file   *file.State[hours.Kept]
	last   hours.Kept // in the file
	failed bool
}

// openHours opens what adds up what users and services have. It has to come before the
// journal, which tells what became of leases since the sums were written.
func (d *Daemon) openHours(o Options) {
	d.hours = hours.New(d.labels.Label)
	if o.ReadOnly {
		return
	}
	d.added.file = file.NewState[hours.Kept](o.state(inventory.Hours), file.StateOptions{
		What: "what users and services had over time", Version: 1, Lost: "What users and services had over time begins anew.",
	})
	d.tellDamage(d.added.file.Load(func(kept hours.Kept) error {
		if err := kept.Check(); err != nil {
			return err
		}
		d.added.last = kept
		return nil
	}))
	if energy.OfOlder(o.state(inventory.Energy)) { // that daemon has stored sums that began at 0, and are not in these
		d.added.last = hours.Kept{}
	}
	now := time.Now()
	d.hours.Recall(d.added.last, now, now.Add(-process.Uptime()))
}

// addUp adds up what users and services had until now. It writes the sums before anybody
// stores or shows them: a daemon that comes after one that was killed goes on from what is
// in the file, and must not count again what was stored.
func (d *Daemon) addUp(now time.Time) {
	d.hours.Look(now, d.ledger)
	kept, was := d.hours.Keep(), &d.added.last
	if maps.Equal(kept.Users, was.Users) && maps.Equal(kept.Services, was.Services) && now.Sub(was.At).Abs() < keepHoursEvery {
		return
	}
	err := d.added.file.Save(kept)
	if err == nil {
		d.added.last = kept
	} else if !d.added.failed {
		d.log.Warn("cannot keep sums, so a daemon that is killed counts anew", "error", err)
	}
	d.added.failed = err != nil
}

// mostAppended is the most moments that are handed over to the past without waiting.
const mostAppended = 16

// recordMissed hands the hours of the time without a daemon over to the past.
func (d *Daemon) recordMissed(ctx context.Context) {
	var list []moment
	d.hours.Missed(func(at time.Time, users, services map[string]hours.Sum) {
		list = append(list, moment{at, d.recorder.OverTime(users, services)})
	})
	all := func(store func(time.Time, []series.Sample) bool) {
		for _, m := range list {
			if ctx.Err() != nil || !d.past.On() || !store(m.at, m.list) {
				return
			}
		}
	}
	if len(list) > mostAppended {
		_ = d.past.WriteAll(all) // the queue has no room for all of them; it counts what it drops
		return
	}
	for at, list := range all {
		_ = d.past.Append(at, list)
	}
}

// restOf returns everything but the devices, to be stored at a time. What begins then is
// stored with what it was just before.
func (d *Daemon) restOf(now, at time.Time) (before moment, list []series.Sample) {
	list = d.recorder.Rest(now)
	return moment{at.Add(-time.Millisecond), d.recorder.Begun()}, list
}
