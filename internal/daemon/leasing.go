package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/numbers"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/when"
)

// openBook opens the ledger, the numbers of ids and the audit log in the state folder. The journal of the
// ledger names the newest line of the audit log, which shows whether lines are missing. A
// daemon that only looks has no audit log.
func (d *Daemon) openBook(o Options) (err error) {
	var marked audit.Marked
	d.openHours(o)
	d.openArchive(o)
	d.ledger, err = ledger.Open(ledger.Options{
		Replayed: func(e *lease.Effect) { d.hours.Replay(e); d.archive.Replay(e) },
		Settings: d.leasing(o.Settings.Config), Processes: d.processes, Names: d.users, CPUs: runtime.NumCPU(), Clock: when.Clock{Wall: o.wall(), Passed: o.Passed},
		Open: func(replay func(journal.Entry) error) (journal.Journal, error) {
			if o.ReadOnly {
				return journal.Forgetful(), nil
			}
			log, recovery, err := filelog.Open(locked{file.PrivateDir(o.state(inventory.Leases)), d.alone}, filelog.Options{}, marked.Reading(replay))
			if err != nil {
				return nil, err
			}
			if torn := recovery.Torn; torn != nil {
				d.publish(gpu.Event{
					Time: time.Now(), Code: gpu.EventJournal, Severity: gpu.Warning, Data: map[string]any{"file": torn.File, "bytes": torn.Bytes},
					Text: fmt.Sprintf("The journal ended in the middle of a record, as a crash leaves it, and %d bytes of %s were cut off. If neither the daemon nor the machine had died, the file was damaged: look at who uses the GPUs, because leases may be missing.", torn.Bytes, torn.File),
				})
			}
			d.logs[inventory.Leases] = log
			return marked.Over(log), nil
		},
		OpenWaiting: func(replay func(journal.Entry) error) (journal.Journal, error) {
			if o.ReadOnly {
				return journal.Forgetful(), nil
			}
			log, damage, err := openWaiting(o.state(inventory.Waiting), replay)
			d.tellDamage(damage)
			if err != nil {
				d.log.Warn("the log of waiting requests cannot be opened: those who wait lose their places if the daemon ends", "error", err)
			}
			if open, is := log.(*filelog.Log); is {
				d.logs[inventory.Waiting] = open
			}
			return log, nil
		},
	})
	if err != nil {
		return err
	}
	d.archive.Recall()
	var damage *file.Damage
	d.serial, damage = numbers.Open(o.state(inventory.Numbers), time.Now())
	d.tellDamage(damage)
	if o.ReadOnly {
		return nil
	}
	d.runLast("numbers", func(ctx context.Context) {
		<-ctx.Done()
		_ = d.serial.Close() // a failure skips a few numbers
	})
	d.audit = audit.Open(file.Dir(o.state(inventory.Audit)), auditing(o.Settings.Config), &marked, d.publish)
	d.run("audit", d.audit.Run)
	d.checkSaved(o)
	return nil
}

// openWaiting opens the log of waiting requests. If it is damaged, or of a later version
// of berth, openWaiting sets it aside and begins anew: those who waited have lost their
// places, and nothing else. If something else is in the way, such as a full disk, openWaiting
// says so and goes on without the log, which keeps what it has.
func openWaiting(path string, replay func(journal.Entry) error) (journal.Journal, *file.Damage, error) {
	open := func() (journal.Journal, error) {
		log, _, err := filelog.Open(file.PrivateDir(path), filelog.Options{}, replay)
		if err != nil {
			return nil, err
		}
		return log, nil
	}
	log, err := open()
	corrupt, later := (*journal.CorruptError)(nil), (*journal.VersionError)(nil)
	switch {
	case err == nil:
		return log, nil, nil
	case !errors.As(err, &corrupt) && !errors.As(err, &later):
		return journal.Forgetful(), nil, err
	}
	damage := file.SetAside(path, "Requests that waited may have lost their places in the queue.", nil, err)
	if log, err = open(); err != nil {
		damage.Err = errors.Join(damage.Err, err)
		return journal.Forgetful(), damage, nil
	}
	return log, damage, nil
}

// leasing translates the settings of the ledger.
func (d *Daemon) leasing(c config.Config) quota.Settings {
	limits := d.limits.Load()
	services := make(map[string]quota.Served, len(c.Services))
	for name, s := range c.Services {
		services[name] = quota.Served{
			Preferred: s.PreferredDevice, Match: match(s.Match),
			Service: quota.Service{
				Name: name, Together: s.Affinity == "together", MinMemory: s.MinMemory.Or(0), MaxMemory: s.MaxMemory.Or(0), Priority: s.Priority,
				Quota: lease.Usage{Memory: s.Quota.Memory.Or(0), Slots: s.Quota.Slots.Or(0)}, Users: withProgram(s), Nameless: d.nameless,
				Parkable: s.MayPark(), Unshared: s.Parkable == "unshared", Shrinkable: s.Shrinkable == "true",
			},
		}
	}
	return quota.Settings{
		Services: services, Alike: quota.Alike(services), KnownOnly: c.UnknownServices == "refuse", Pass: c.Queue.Unknown == "pass", Wait: c.Optimization.AllocationTimeout,
		Limits: quota.Lookup{Generation: limits.Generation, Of: func(s lease.Subject) *lease.Limits { return &limits.Of(s).Limits }},
		Device: func(uuid string) quota.DeviceSettings {
			d := c.GPU.For(uuid)
			return quota.DeviceSettings{Limit: d.MemoryLimit.Or(0), Reserve: d.MemoryReserve, MaxPipelines: d.MaxPipelines.Or(0), Extra: d.ExtraSlots}
		},
	}
}

// nameless reports whether the user database has said that a user has no name.
func (d *Daemon) nameless(uid int) bool {
	return d.users.Settled(uid) && d.users.Now(uid) == strconv.Itoa(uid) // in this order: the answer may come in between
}

// withProgram returns the users who may lease in the name of a service: those that the
// settings name, and the one whose program berth runs.
func withProgram(s config.Service) []string {
	if len(s.Users) == 0 || !s.Runs() || s.User == "" {
		return s.Users
	}
	return append(slices.Clone(s.Users), s.User)
}

// match translates how the processes of a service are recognised. It returns nil if
// nothing is set.
func match(m config.Match) *kinship.Match {
	if m == (config.Match{}) {
		return nil
	}
	return &kinship.Match{Unit: m.Unit, Cgroup: m.Cgroup, Program: m.Program, User: m.User}
}
