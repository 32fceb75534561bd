package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/when/later"
)

// openJobs opens the jobs in the state folder. A daemon that only looks has none, and
// neither has one that cannot start minders.
func (d *Daemon) openJobs(o Options) error {
	if o.ReadOnly || o.Program == "" {
		return nil
	}
	p, err := d.openPrograms(o, inventory.Jobs)
	if err != nil {
		return err
	}
	d.minders = p.minders
	d.jobs, err = keeper.Open(keeper.Options{
		Folder: o.state(inventory.Environments), Boot: p.boot, Minders: p.minders, Numbers: d.serial.Next,
		Limits: d.jobLimits, Account: d.accountOf, Publish: d.publish, Log: o.Log,
		Open: func(replay func(journal.Entry) error) (journal.Journal, error) {
			log, _, err := filelog.Open(file.PrivateDir(o.state(inventory.JobJournal)), filelog.Options{}, replay)
			if err != nil {
				return nil, fmt.Errorf("the jobs in %s: %w", o.state(inventory.JobJournal), err)
			}
			d.logs[inventory.JobJournal] = log
			return log, nil
		},
	})
	if err == nil {
		d.serial.Given(d.jobs.Newest(), time.Now())
	}
	return err
}

// programs is what it takes to run programs: a folder of the state, and minders whose runs
// are there. Paths are absolute, because a minder runs in another folder.
type programs struct {
	folder, socket, boot string
	minders              Minders
}

// openPrograms opens the programs in a folder of the state.
func (d *Daemon) openPrograms(o Options, name string) (p programs, err error) {
	if p.folder, err = filepath.Abs(o.state(name)); err != nil {
		return p, err
	}
	if p.socket, err = filepath.Abs(o.Settings.Config.Daemon.Socket); err != nil {
		return p, err
	}
	if err := os.Mkdir(p.folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return p, fmt.Errorf("make the folder of %s: %w", name, err)
	}
	if p.minders, err = o.minders(filepath.Join(p.folder, "runs"), p.socket, os.Geteuid() == 0); err != nil {
		return p, err
	}
	d.runs = append(d.runs, p.minders)
	p.boot, err = d.processes.Boot()
	return p, err
}

// jobLimits returns how many jobs a user may have. With jobs: off, no task begins.
func (d *Daemon) jobLimits(uid int, user string) keeper.Limits {
	limits, unsure := desk.LimitsOf(d.users, d.limits.Load(), uid, user)
	return keeper.Limits{
		Running: limits.RunningJobs.Opt, Waiting: limits.WaitingJobs.Opt, Passing: later.Passes(unsure), Off: d.settings.config().Jobs == "off",
	}
}

// accountOf looks up the user of a job, for its minder.
func (d *Daemon) accountOf(user string, uid int) (api.MinderAccount, error) {
	type found struct {
		account api.MinderAccount
		err     error
	}
	f, answered := users.Ask(d.users, accountsLimit, func() (f found) {
		f.account, f.err = d.lookUp(user, uid)
		return f
	})
	if !answered {
		return api.MinderAccount{}, later.Because(errors.New("the user database does not answer"), 0)
	}
	return f.account, f.err
}

// clockSet has jobs wait as long as they have, although the clock was set.
func (d *Daemon) clockSet(by time.Duration) {
	if d.jobs != nil {
		d.jobs.Shift(by)
	}
}

// jobsOverran tells the jobs that a lease has reached its time limit.
func (d *Daemon) jobsOverran(e *lease.Effect) {
	if d.jobs != nil && e.Kind == lease.Overran && e.Before.Cancelled == nil {
		d.jobs.Overran(e.Before.ID, e.Before.Holder.UID, e.Before.Fence)
	}
}

// runJobs runs jobs until ctx ends.
func (d *Daemon) runJobs(run func(context.Context) error) func(context.Context) {
	return func(ctx context.Context) {
		if err := run(ctx); err != nil {
			d.log.Error("the journal of jobs was not closed", "error", err)
		}
	}
}
