// Package daemon wires everything together: it opens the devices, gives each
// keeper what it needs, and opens the doors.
//
// It is the only package that knows them all, and nothing but the binary may
// import it.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/batch/runs"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/desk/oversight"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/check"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/door/httpapi"
	"github.com/berth-gpu/berth/internal/door/peercred"
	"github.com/berth-gpu/berth/internal/door/promexport"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/enforce/checkup"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/park/mover"
	"github.com/berth-gpu/berth/internal/enforce/reclaim"
	"github.com/berth-gpu/berth/internal/enforce/throttle"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/history/events"
	"github.com/berth-gpu/berth/internal/history/hooks"
	"github.com/berth-gpu/berth/internal/history/past"
	"github.com/berth-gpu/berth/internal/history/query"
	"github.com/berth-gpu/berth/internal/history/throughput"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/archive"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/cgroup"
	"github.com/berth-gpu/berth/internal/process/devicelock"
	"github.com/berth-gpu/berth/internal/process/mps"
)

// eventsKept is how many events a reader may fall behind: hours on a quiet machine, and
// still minutes while every device changes its state each second.
const eventsKept = 4096

// nameLimit is how long a request waits for the name of its user. A user
// database that answers does so in a few milliseconds.
const nameLimit = 200 * time.Millisecond

// Options configures a daemon.
type Options struct {
	Settings *config.Settings
	Version  string
	Log      *slog.Logger  // must not block: the ledger and the samplers write to it
	Unlogged func() uint64 // number of lines that the log dropped; nil if it drops none

	// Load reads the settings again from where they came. If it is nil, Reload changes
	// nothing.
	Load func() (*config.Settings, error)

	// Guardian is the command of the guardian of stopped processes. If it is empty, no
	// lease can be paced.
	Guardian []string

	// ReadOnly leaves the state folder alone, for a look at the devices beside a daemon
	// that may be running.
	ReadOnly bool
}

// Daemon is a whole daemon with all its parts.
type Daemon struct {
	log      *slog.Logger
	settings *settings
	backends []device.Backend
	events   *events.Log
	ration   *events.Ration

	remembered file.Folder // folder of events across restarts; nil if they are not kept

	users    *users.Names
	numbers  users.Numbers
	rules    atomic.Pointer[access.Rules]
	shown    certificate // on TCP
	limits   atomic.Pointer[quota.Rules]
	kernel   *peercred.Kernel
	doorstep func() // counts callers that there is no room for
	monitor  *monitor.Monitor
	ledger   *ledger.Ledger
	batches  *runs.Runs
	peaks    *peaks.Peaks
	archive  *archive.Archive
	past     *past.Past // nil if the daemon only looks
	recorder *promexport.Recorder
	engine   *query.Engine // nil if the daemon only looks
	alerts   *alert.Alerts // nil if the daemon only looks
	energy   *energy.Meters
	idle     *idle.Idlers
	audit    *audit.Log // nil if the daemon only looks
	marked   audit.Marked
	labels   *promexport.Names
	tokens   *tokens.Tokens
	sessions *sessions.Sessions
	tries    *sessions.Tries // failed attempts to show a token

	operations *throughput.Counter
	watchdog   *watchdog.Watchdog
	mps        *mps.Pool
	groups     *cgroup.Pool
	pacer      *pace.Pacer
	hooks      *hooks.Hooks
	closeWeb   func() // closes the idle connections of hooks

	drains    *drains.Drains
	checkup   *checkup.Checkup
	prover    check.Prover
	oversight *oversight.Oversight
	throttle  *throttle.Throttle
	reclaim   *reclaim.Reclaim // nil if the daemon only looks
	parking   *mover.Mover     // nil if the daemon only looks
	mover     check.Mover
	locks     *devicelock.Locks // nil if the daemon only looks
	unlocked  sync.Once         // logs once that no device can be locked
	standings interface {       // *oversight.Standings
		Run(ctx context.Context, complain func(error))
	}

	handler   http.Handler
	listening atomic.Pointer[string] // address on TCP; nil if there is none
	publish   func(gpu.Event)
	streams   sync.WaitGroup // open lease streams
	patience  time.Duration  // see stopLimit
}

// Open opens the devices and reads each of them once, so that the first answer is never
// empty. It starts nothing.
func Open(ctx context.Context, o Options) (*Daemon, error) {
	c := o.Settings.Config
	d := &Daemon{log: o.Log, events: events.New(eventsKept, time.Now()), users: users.New(users.Lookup, nameLimit), labels: &promexport.Names{}, patience: stopLimit}
	d.numbers.Limit = accountsLimit
	d.govern(c)
	d.labels.Reserve(slices.Collect(maps.Keys(c.Services)))
	d.operations = throughput.New(d.labels.Service)
	var err error
	if d.backends, err = openDevices(c.Daemon.Devices); err != nil {
		return nil, err
	}
	processes := processTable(d.backends)
	if !o.ReadOnly {
		if err := prepareState(c.Daemon.StateDir); err != nil {
			return nil, errors.Join(err, closeAll(d.backends))
		}
	}
	d.settings = newSettings(o.Settings, filepath.Join(c.Daemon.StateDir, savedName), d.configure)
	d.settings.reread, d.settings.renew, d.settings.record = o.Load, d.renew, d.record
	d.settings.refused = d.tellRefusedReload
	host, _ := os.Hostname() // the machine may have no name
	exporter := promexport.New(promexport.Sources{
		Devices: d.shownDevices, Look: func() promexport.Values { return d.shownValues(o.Unlogged) },
		Labels: d.labels, Hooks: slices.Sorted(maps.Keys(c.Hooks)), TokenFailures: sessions.TryReasons(), Host: host, Version: o.Version,
	})
	d.kernel, d.doorstep = peercred.New(process.Proc()), exporter.TurnedAway
	d.tries = sessions.NewTries(o.Log, exporter.TokenFailed)
	d.publish = d.publisher(ctx, exporter)
	publish := d.publish
	d.openEvents(o, host, exporter)
	d.openPast(o, host, exporter)
	d.openAsking()
	d.ledger, err = openLedger(o, d.leasing(c), processes, d.users, &d.marked, d.publish, ledger.Hooks{
		Event: func(e gpu.Event) { publish(d.oversight.Bill(e)); d.nudgeParking() }, Decided: exporter.Decided, Ended: d.leaseEnded,
		Returned: func(l *lease.Lease) { d.parking.Changed(l.Fence) },
		Overran: func(l *lease.Lease, why string) {
			d.watchdog.End(watchdog.Holding{Lease: l.Key(), Fence: l.Fence, Service: l.Holder.Service, User: l.Holder.User, Scoped: len(l.Scope) > 0}, ledger.LimitMandate(l), why)
		},
		Authority: d.authority,
	})
	if err != nil {
		return nil, errors.Join(err, closeAll(d.backends))
	}
	d.openAudit(o)
	d.checkSaved(o)
	d.openTokens(o)
	d.openSessions(o)
	standings := d.openEnforcement(o, processes, publish)
	d.openEnergy(o)
	d.batches = runs.New(publish, func(uuid string) bool {
		r, known := d.monitor.Find(uuid)
		return known && r.Device.UUID == uuid
	}, func(owner lease.Owner, uuid string) bool { return d.oversight.Holds(owner, uuid) })
	d.openIdle()
	d.oversight = oversight.New(oversight.Options{
		Leases: d.ledger, Peaks: d.peaks, Archive: d.archive, Watchdog: d.watchdog, MPS: ownProcesses{d.mps, &d.prover, &d.mover}, Groups: d.groups, Batches: d.batches, Processes: processes, Names: d.users,
		Drains: d.drains,
		Energy: d.energy,
		Idle:   d.idle, Parkable: d.parkable,
		Policy: d.policy, Throttle: func(r monitor.Reading) { d.throttle.Observe(r) }, Shrunk: d.shrunk,
	})
	d.monitor = monitor.New(d.backends, monitoring(c.GPU), monitor.Hooks{
		Event: func(e gpu.Event) { publish(d.oversight.Charge(e)) }, Cost: exporter.Cost,
		Reading: d.oversight.Observe, Stuck: d.oversight.Unread, Standing: standings.Changed, Filled: d.drains.Held,
		Due: func(on gpu.Device) { d.checkup.Due(on) },
	})
	d.prover.Devices = d.monitor
	d.checkup = checkup.New(checkup.Options{
		Prover: &d.prover, Monitor: d.monitor, Leases: d.ledger, Closures: d.drains, Publish: publish,
	})
	d.monitor.Recall(standings.All())
	d.openPacer(o, processes)
	if err := d.openParking(o, processes); err != nil {
		return nil, errors.Join(err, d.ledger.Close(), closeAll(d.backends))
	}
	d.openReclaim(o, processes)
	d.drains.Tell(drains.Hooks{Changed: d.monitor.Refresh, Ended: func(uuid string, _ health.Drain) { publish(d.drainOver(uuid)) }})
	d.openThrottle(o, exporter)
	d.recallHeat(o)
	if err := d.openAlerts(o); err != nil {
		return nil, errors.Join(err, d.ledger.Close(), closeAll(d.backends))
	}
	d.handler = httpapi.New(httpapi.Parts{
		Monitor: d.monitor, Events: d.events, Settings: d.settings, Ledger: d.ledger, Batches: d.batches, Past: d.archive, Audit: d.audit, Log: o.Log, Streams: &d.streams,
		Desk: desk.New(desk.Parts{
			Monitor: d.monitor, Ledger: d.ledger, Peaks: d.peaks, Processes: processes, Users: d.users, Operations: d.operations, Tokens: d.tokens,
			Energy: d.energy, MPS: ownProcesses{d.mps, &d.prover, &d.mover}, Pacer: d.pacer, Config: func() *config.Config { return &d.settings.load().Config }, CPUs: runtime.NumCPU(), Socket: c.Daemon.Socket,
			Record: d.record, Publish: publish, Note: d.Note, Groups: d.groups, Throttle: d.throttle, ClearedBy: d.clearedBy, Limits: &d.limits,
			Drains: d.drains, Checkup: d.checkup, Optimizer: d.optimizer(), Parking: d.parker(), Idle: d.idle,
		}),
		Metrics: exporter, Nameless: exporter.Nameless, Host: host, Version: o.Version,
		Note: d.Note, Ready: d.ready, Damaged: d.damaged, Remembered: d.past.Text, Contained: d.kernel.Contained(),
		Alerts: d.alerts, NoAlerts: d.noAlerts, Hooks: d.hooks,
		Guests: slices.Concat(d.asking(d.alerts), pageGuests()), Door: d.doorkeeper(), PageURL: d.pageURL,
	})
	if err := d.monitor.Once(ctx); err != nil {
		d.log.Warn("some devices did not answer at the start", "error", err)
	}
	return d, nil
}

// Run serves until ctx ends. Then it returns within seconds, even if a part of the daemon
// hangs: it logs the parts that did not end.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := d.settings.load().Config.Daemon
	secret, err := readToken(c, d.warn)
	if err != nil {
		return err
	}
	shown, err := readCertificate(c, d.warn)
	if err != nil {
		return err
	}
	d.shown.current.Store(shown)
	streams, endStreams := context.WithCancel(ctx)
	defer endStreams()
	d.trustToken(secret)
	doors, err := openDoors(streams, c, d.handler, d.doorkeeper(), d.kernel, &d.shown, d.doorstep)
	if err != nil {
		return err
	}
	if at := doors.tcp(); at != "none" {
		d.listening.Store(&at)
	}
	d.log.Info("berth is up", "socket", c.Socket, "listen", doors.tcp(), "devices", len(d.monitor.Readings()), "backend", c.Devices)
	if note := d.Note(); note != "" {
		d.log.Warn(note)
	}
	d.keepMPS(d.settings.load().Config)
	defer d.rememberEvents(ctx)() // until nothing publishes any more
	var running parts
	running.run("tokens", func() { _ = d.tokens.Run(ctx) })     // a failure loses only when tokens were used
	running.run("sessions", func() { _ = d.sessions.Run(ctx) }) // after a failure, users sign in again
	running.run("peaks", func() { _ = d.peaks.Run(ctx) })       // a failure costs only a guess
	running.run("archive", func() { _ = d.archive.Run(ctx) })   // a failure costs only the archive
	running.run("past", func() { d.keepPast(ctx) })
	running.run("recorder", func() { d.runPast(ctx) })
	recording, recorded := context.WithCancel(context.WithoutCancel(ctx)) // until nothing can change any more
	defer recorded()
	if d.audit != nil {
		running.run("audit", func() { d.audit.Run(ctx) })
	}
	running.run("energy", func() { _ = d.energy.Run(recording) }) // after a failure, sums begin anew
	running.run("idle", func() { d.idle.Run(ctx) })
	running.run("quarantine", func() { d.standings.Run(recording, func(err error) { d.log.Warn(err.Error()) }) })
	running.run("drains", func() { d.drains.Run(ctx) })
	running.run("checks", func() { d.checkup.Run(ctx) })
	running.run("heat", func() { oversight.KeepModels(ctx, filepath.Join(c.StateDir, heatName), d.monitor.Models) })
	running.run("watchdog", func() { d.watchdog.Run(ctx) })
	running.run("mps", func() { d.mps.Run(ctx) })
	running.run("pacer", func() { d.pacer.Run(ctx) })
	d.watchdog.Configure(d.watching(d.settings.load().Config))
	running.run("throttle", func() { d.throttle.Run(ctx) })
	if d.reclaim != nil {
		running.run("reclaim", func() { d.reclaim.Run(ctx) })
		running.run("parking", func() { d.parking.Run(ctx) })
	}
	running.run("claims", func() { d.locks.Run(ctx, func() { d.watchdog.Configure(d.watching(d.settings.load().Config)) }) })
	running.run("groups", func() { d.groups.Run(ctx, d.stands) })
	if d.alerts != nil {
		running.run("alerts", func() { d.alerts.Run(ctx) })
	}
	running.run("hooks", func() { d.hooks.Run(ctx); d.closeWeb() })
	running.run("monitor", func() { defer recorded(); _ = d.monitor.Run(ctx) })
	kept := make(chan error, 1)
	running.run("ledger", func() { kept <- d.ledger.Run(ctx) })
	running.run("doors", func() { <-ctx.Done(); doors.close() })
	running.run("certificate", func() { d.watchCertificate(ctx) })
	running.run("accounts", func() { d.findAccounts(ctx) })
	running.run("systemd", func() { d.tellSystemd(ctx) })
	err = doors.serve()
	cancel() // even if the doors failed
	running.wait(d.patience)
	recorded() // even if the monitor hangs
	endStreams()
	running.run("streams", d.streams.Wait)
	if left := running.wait(leaveLimit); len(left) > 0 {
		d.log.Error("parts of the daemon hang, and are left behind", "parts", left)
	}
	select {
	case e := <-kept:
		err = errors.Join(err, e)
	default:
		err = errors.Join(err, errors.New("the journal was not closed: the ledger hangs. Leases stand, and the next start reads them"))
	}
	d.log.Info("berth is down")
	return err
}

// doorkeeper returns a doorkeeper that identifies callers by what the kernel says.
func (d *Daemon) doorkeeper() doorkeeper.Doorkeeper {
	return doorkeeper.Doorkeeper{Kernel: d.kernel, Processes: process.Proc(), Names: d.users, Rules: d.rules.Load, Tokens: d.tokens, Sessions: d.sessions, Tries: d.tries, Limits: d.limits.Load, Named: d.shown.named}
}

// Close closes the devices and the journal. It does not wait for a driver or a disk that
// hangs.
func (d *Daemon) Close() error {
	d.ration.Close()
	if d.audit != nil {
		d.audit.Close()
	}
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(d.ledger.Close(), closeAll(d.backends)) }()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeLimit):
		return errors.New("close the devices and the journal: one of them hangs")
	}
}

// Note returns why there are no devices, or why this daemon is not in charge of those
// that are there.
func (d *Daemon) Note() string {
	if len(d.monitor.Readings()) > 0 {
		return d.second()
	}
	return whyNone(d.backends)
}

// warn logs something unsafe that is no reason to refuse.
func (d *Daemon) warn(text string) { d.log.Warn(text) }

// tellRefusedReload publishes why a reload changed nothing.
func (d *Daemon) tellRefusedReload(by access.Actor, err error) {
	d.publish(gpu.Event{
		Time: time.Now(), Code: gpu.EventConfig, Severity: gpu.Warning, By: lease.ByOf(by),
		Text: fmt.Sprintf("The configuration was not read again: %v", err), Public: "The configuration was not read again",
	})
}

// Reload reads the settings again, and applies what has changed. If something is wrong
// with them, it publishes an event and changes nothing.
func (d *Daemon) Reload() {
	done, err := d.settings.Reload(access.Daemon())
	if err != nil {
		return
	}
	d.log.Info("the configuration was read again")
	for _, o := range done.Overridden {
		d.log.Warn("a setting of the file does not hold, because a stronger source says otherwise", "field", o.Field, "file", o.File, "decided_by", o.Source)
	}
}

// configure applies changed settings.
func (d *Daemon) configure(c config.Config, by access.Actor, changed []string) {
	d.govern(c)
	d.monitor.Configure(monitoring(c.GPU))
	d.ledger.Configure(d.leasing(c))
	d.watchdog.Configure(d.watching(c))
	d.throttle.Configure(throttling(c))
	if d.reclaim != nil {
		d.reclaim.Configure(reclaiming(c))
		d.parking.Configure(parkingRules(c))
	}
	d.hooks.Configure(hooking(c))
	d.past.Configure(remembering(c))
	if d.audit != nil {
		d.audit.Configure(auditing(c))
	}
	d.labels.Reserve(slices.Collect(maps.Keys(c.Services)))
	d.passable(c)
	if len(changed) > 0 {
		open := slices.DeleteFunc(slices.Clone(changed), namesSomebody)
		d.publish(gpu.Event{
			Time: time.Now(), Code: gpu.EventConfig, Severity: gpu.Note, By: lease.ByOf(by),
			Text:   "The configuration was changed: " + strings.Join(changed, ", "),
			Public: strings.TrimSuffix("The configuration was changed: "+strings.Join(open, ", "), ": "),
			Data:   map[string]any{"changed": append([]string{}, open...)},
		})
	}
}

func monitoring(c config.GPU) monitor.Settings {
	return monitor.Settings{
		Interval: c.MonitorInterval, HistorySize: c.HistorySize,
		Health: health.Rules{Quarantine: c.Quarantine, Probation: c.Probation, SlotReturn: c.SlotReturn, Check: c.Check == "on"},
		Rules: func(uuid string) thermal.Rules {
			d := c.For(uuid)
			return thermal.Rules{Thresholds: d.Thresholds, Cooldown: d.ThrottleCooldown, CriticalPause: d.CriticalPause, Forecast: c.Forecast == "on"}
		},
	}
}
