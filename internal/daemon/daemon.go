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
	"io"
	"log/slog"
	"maps"
	"net/http"
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
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/desk/oversight"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/door/httpapi"
	"github.com/berth-gpu/berth/internal/door/peercred"
	"github.com/berth-gpu/berth/internal/door/promexport"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/enforce/checkup"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/park/mover"
	"github.com/berth-gpu/berth/internal/enforce/reclaim"
	"github.com/berth-gpu/berth/internal/enforce/throttle"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/job/owner"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/numbers"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/cgroup/enclosure"
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

	// Passed returns how much time has passed since some moment, with the time that the
	// machine slept. If it is nil, that time does not count.
	Passed func() time.Duration

	// Guardian is the command of the guardian of stopped processes. If it is empty, no
	// lease can be paced.
	Guardian []string

	// Program is the path of berth-serve, which becomes the readers of logs. If it is
	// empty, the daemon runs no jobs.
	Program string
	// Minder returns the program that becomes the minders of jobs. If it is nil, that is
	// Program.
	Minder func() string

	// Machine is where the daemon runs; nil means this machine.
	Machine *Machine

	// ReadOnly leaves the state folder alone, for a look at the devices beside a daemon
	// that may be running.
	ReadOnly bool
}

// state returns the path of a file in the state folder, or "" if the daemon only looks.
func (o Options) state(name string) string {
	if o.ReadOnly {
		return ""
	}
	return filepath.Join(o.Settings.Config.Daemon.StateDir, name)
}

// Daemon is a whole daemon with all its parts.
type Daemon struct {
	log       *slog.Logger
	settings  *settings
	simulated *Machine // nil: it runs on this machine
	backends  []device.Backend
	processes process.Table
	people    // who may do what
	*news     // how events travel
	entrance  // who is let in
	chronicle // what was measured before
	usage     // what leases use
	*charge   // whose devices these are

	alone   io.Closer               // the lock of the journal of leases: no other daemon uses the state folder; nil if the daemon only looks
	logs    map[string]*filelog.Log // the journals in the state folder, by their paths
	ledger  *ledger.Ledger
	audit   *audit.Log       // nil if the daemon only looks: then nothing is recorded
	serial  *numbers.Numbers // of the ids that the daemon makes
	monitor *monitor.Monitor
	drains  *drains.Drains

	own      ownProcesses
	groups   *enclosure.Pool
	watchdog *watchdog.Watchdog
	checkup  *checkup.Checkup
	pacer    *pace.Pacer
	parking  *mover.Mover     // nil if the daemon only looks
	reclaim  *reclaim.Reclaim // nil if the daemon only looks
	throttle *throttle.Throttle

	jobs     *keeper.Keeper // nil if the daemon runs none
	minders  Minders        // of jobs; likewise
	runs     []Minders      // of jobs and of services
	services *owner.Owner   // likewise
	front    *frontDoor     // likewise

	oversight *oversight.Oversight
	alerts    *alert.Alerts // nil if the daemon only looks
	handler   http.Handler
	parts     []part        // what runs, besides the monitor, the ledger and the doors
	patience  time.Duration // see stopLimit
	closing   time.Duration // see closeLimit
}

// entrance is what guards the doors.
type entrance struct {
	kernel    *peercred.Kernel
	tokens    *tokens.Tokens
	sessions  *sessions.Sessions
	tries     *sessions.Tries        // failed attempts to show a token
	shown     certificate            // on TCP
	issued    atomic.Pointer[issued] // tokens of a cluster
	listening atomic.Pointer[string] // address on TCP; nil if there is none
	unheard   atomic.Pointer[string] // why the daemon does not listen on TCP although it should; nil if it does
	asides    asides                 // what /readyz says of damaged files
	socket    *ownSocket             // nil on a simulated machine; its group belongs to findAccounts after the start
	streams   sync.WaitGroup         // open lease streams
}

// Open opens the devices and reads each of them once, so that the first answer is never
// empty. It starts nothing. Each step uses only what the steps before it have opened.
func Open(ctx context.Context, o Options) (*Daemon, error) {
	d := &Daemon{log: o.Log, simulated: o.Machine, patience: stopLimit, closing: closeLimit, logs: map[string]*filelog.Log{}}
	d.settings = newSettings(o.Settings, d, o.Load)
	for _, step := range []func(Options) error{
		d.openMachine,     // 1. the devices, the accounts of users, the state folder
		d.openNews,        // 2. events: counters, rations, hooks
		d.openPast,        // 3. the store of measurements, and queries
		d.openBook,        // 4. the book of leases, and the audit log
		d.openEntrance,    // 5. tokens and sessions
		d.openMonitor,     // 6. the state, health and drains of devices
		d.openUsage,       // 7. what leases use: memory, energy, time
		d.openEnforcement, // 8. what holds leases to what they have
		d.openPacer,       // 9. … and to shares of their devices
		d.openParking,     // 10. what moves their memory away
		d.openReclaim,     // 11. what gets memory back
		d.openThrottle,    // 12. what slows devices down
		d.openOversight,   // 13. what samples and changes of leases mean: it subscribes to both
		d.openAlerts,      // 14. the rules of alerts
		d.openJobs,        // 15. the jobs of users
		d.openServices,    // 16. the programs of services, and the front before them
		d.openDoor,        // 17. the way in for requests
	} {
		err := step(o)
		if d.news != nil {
			err = errors.Join(err, d.unread)
		}
		if err != nil {
			return nil, errors.Join(err, d.closeAll())
		}
	}
	if err := d.monitor.Once(ctx); err != nil {
		d.log.Warn("some devices did not answer at the start", "error", err)
	}
	return d, nil
}

// closeAll closes the devices and the journals, as far as they are open. The journal of jobs
// is closed already, unless nothing has run.
func (d *Daemon) closeAll() error {
	errs := []error{closeAll(d.backends)}
	if d.ledger != nil {
		errs = append(errs, d.ledger.Close())
	}
	if jobs := d.logs[inventory.JobJournal]; jobs != nil {
		errs = append(errs, jobs.Close())
	}
	if d.alone != nil {
		_ = d.alone.Close() // the journal of leases has closed it, if that was open
	}
	return errors.Join(errs...)
}

// openMachine opens the devices, and finds the accounts of the users that the
// configuration names. A daemon that only looks leaves the state folder alone.
func (d *Daemon) openMachine(o Options) (err error) {
	c := o.Settings.Config
	d.users, d.numbers.Limit = users.New(users.Lookup, nameLimit), accountsLimit
	if m := o.Machine; m != nil {
		d.users, d.backends, d.processes = m.Users.Names(nameLimit), m.Devices, process.Of(m.Processes)
		d.numbers.Ask(m.Users)
	} else if d.backends, err = openDevices(c.Daemon.Devices); err != nil {
		return err
	} else {
		d.processes = processTable(d.backends)
	}
	if !o.ReadOnly {
		if err := prepareState(c.Daemon.StateDir); err != nil {
			return err
		}
		if d.alone, err = file.PrivateDir(o.state(inventory.Leases)).Lock(); err != nil { // before it puts a file aside that another daemon uses
			return fmt.Errorf("journal: %w", err)
		}
		d.recall(o.state(inventory.Accounts))
	}
	d.govern(c, false)
	return nil
}

// openEntrance opens the named tokens and the sessions in the state folder.
func (d *Daemon) openEntrance(o Options) error {
	d.kernel, d.tries = peercred.New(process.Proc()), sessions.NewTries(o.Log, d.exporter.TokenFailed)
	if o.ReadOnly {
		d.tokens, d.sessions = tokens.New(), sessions.New()
		return nil
	}
	var unknown, signedOut *file.Damage
	d.tokens, unknown = tokens.Open(o.state(inventory.Tokens))
	d.sessions, signedOut = sessions.Open(o.state(inventory.Sessions), time.Now())
	d.tellDamage(unknown, signedOut, d.accounts.damage)
	d.run("tokens", func(ctx context.Context) { _ = d.tokens.Run(ctx) })     // a failure loses only when tokens were used
	d.run("sessions", func(ctx context.Context) { _ = d.sessions.Run(ctx) }) // after a failure, users sign in again
	return nil
}

// openMonitor opens the monitor. It remembers which devices are in quarantine, which are
// drained, and how their temperatures follow their power.
func (d *Daemon) openMonitor(o Options) error {
	var trusted, unknown, cold *file.Damage
	keepers := monitor.Keepers{}
	keepers.Standings, trusted = monitor.OpenStandings(o.state(inventory.Health))
	keepers.Drains, unknown = drains.Open(o.state(inventory.Drains))
	if !o.ReadOnly {
		keepers.Heat, cold = oversight.ReadModels(o.state(inventory.Heat))
	}
	d.tellDamage(unknown, trusted, cold)
	d.drains, d.monitor = keepers.Drains, monitor.New(d.backends, monitoring(o.Settings.Config.GPU), keepers)
	d.drains.Tell(drains.Hooks{Changed: d.monitor.Refresh, Ended: func(uuid string, _ health.Drain) { d.publish(d.drainOver(uuid)) }})
	d.runLast("quarantine", func(ctx context.Context) {
		keepers.Standings.Run(ctx, func(err error) { d.log.Warn(err.Error()) })
	})
	d.run("drains", d.drains.Run)
	d.run("heat", func(ctx context.Context) { oversight.KeepModels(ctx, o.state(inventory.Heat), d.monitor.Models) })
	return nil
}

// openOversight opens what decides what samples and changes of leases mean. It gets both
// from the monitor and from the ledger, and nothing else does.
func (d *Daemon) openOversight(o Options) error {
	d.oversight = oversight.New(oversight.Options{
		Leases: d.ledger, Peaks: d.peaks, Archive: d.archive, Watchdog: d.watchdog, MPS: d.own, Groups: d.groups, Batches: d.batches, Processes: d.processes, Names: d.users,
		Drains: d.drains, Energy: d.energy, Idle: d.idle, Reclaim: d.reclaim, Config: d.settings.config, Throttle: d.throttle.Observe,
	})
	d.monitor.Subscribe(monitor.Hooks{
		Event: d.deviceEvent, Cost: d.exporter.Cost,
		Reading: func(r monitor.Reading) {
			d.oversight.Observe(r)
			if r.CheckDue {
				d.checkup.Due(r.Device)
			}
		},
	})
	d.ledger.Subscribe(ledger.Hooks{
		Event: d.leaseEvent, Decided: d.exporter.Decided, Changed: d.leaseChanged, Authority: d.audit.RecordLeases, Shifted: d.clockSet,
	})
	return nil
}

// openDoor opens the way in for requests.
func (d *Daemon) openDoor(o Options) error {
	parts := desk.Parts{
		Monitor: d.monitor, Ledger: d.ledger, Peaks: d.peaks, Processes: d.processes, Users: d.users, Operations: d.operations, Tokens: d.tokens, Numbers: d.serial,
		Energy: d.energy, MPS: d.own, Pacer: d.pacer, Config: d.settings.config, CPUs: runtime.NumCPU(), Socket: absolute(o.Settings.Config.Daemon.Socket),
		Record: d.audit.Record, Publish: d.publish, Note: d.Note, Groups: d.groups, Throttle: d.throttle, ClearedBy: d.clearedBy, Limits: &d.limits,
		Drains: d.drains, Checkup: d.checkup, Idle: d.idle, Watchdog: d.watchdog, Faults: d.faults,
	}
	if d.reclaim != nil { // an interface with a nil pointer in it would not be nil
		parts.Optimizer, parts.Parking = d.reclaim, d.parking
	}
	if d.jobs != nil {
		parts.Jobs, parts.Logs = d.jobs, d.minders
	}
	if d.services != nil {
		parts.Services, parts.Front = d.services, d.front
	}
	if !o.ReadOnly {
		parts.Backup = d.backUp(o)
	}
	reception := desk.New(parts)
	if d.jobs != nil {
		d.run("jobs", d.runJobs(reception.Jobs.Run))
		d.run("control groups of runs", func(ctx context.Context) { d.minders.Sweep(ctx, time.Now()) })
	}
	if d.services != nil {
		d.run("services", func(ctx context.Context) { _ = reception.Services.Run(ctx) }) // what it could not write down it has told
		if d.simulated == nil {
			d.run("front", d.front.run)
		}
	}
	d.exporter.Show(d.shownDevices, func() promexport.Values { return d.shownValues(o.Unlogged) })
	d.handler = httpapi.New(httpapi.Parts{
		Monitor: d.monitor, Events: d.events, Settings: d.settings, Ledger: d.ledger, Batches: d.batches, Past: d.archive, Audit: d.audit, Log: o.Log, Streams: &d.streams,
		Desk: reception, Metrics: d.exporter, Nameless: d.exporter.Nameless, Called: d.exporter.Called, Host: d.host, Machine: d.machine, Version: o.Version,
		Note: d.Note, Ready: d.ready, Damaged: d.damaged, Unheard: d.unheard.Load, Remembered: d.past.Text, Contained: d.kernel.Contained(),
		Faults: d.faults, Alerts: d.alerts, NoAlerts: d.noAlerts, Hooks: d.hooks,
		Guests: slices.Concat(d.asking(d.alerts), pageGuests()), Door: d.doorkeeper(), PageURL: d.pageURL,
	})
	d.run("certificate", d.watchCertificate)
	d.run("accounts", d.findAccounts)
	d.run("systemd", d.tellSystemd)
	return nil
}

// Run serves until ctx ends. Then it returns within seconds, even if a part of the daemon
// hangs: it logs the parts that did not end.
func (d *Daemon) Run(ctx context.Context) error {
	if ctx.Err() != nil { // it may not have seen its devices, and must not answer that there are none
		return nil
	}
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
	cluster, err := readIssued(c, d.host, d.warn)
	if err != nil {
		return err
	}
	d.issued.Store(cluster)
	d.shown.current.Store(shown)
	streams, endWith := context.WithCancelCause(context.WithoutCancel(ctx)) // see letGo
	endStreams := func() { endWith(ledger.ErrStopped) }                     // whose requests are refused as the ledger refuses them
	defer endStreams()
	d.trustToken(secret)
	doors, err := d.openWays(streams, c)
	if err != nil {
		return err
	}
	at := "none"
	if have := d.listening.Load(); have != nil {
		at = *have
	}
	d.log.Info("berth is up", "socket", c.Socket, "listen", at, "devices", len(d.monitor.Readings()), "backend", c.Devices)
	if note := d.Note(); note != "" {
		d.log.Warn(note)
	}
	d.keepMPS(d.settings.load().Config)
	d.watchAgain()
	defer d.rememberEvents(ctx)()                                         // until nothing publishes any more
	recording, recorded := context.WithCancel(context.WithoutCancel(ctx)) // until nothing can change any more
	defer recorded()
	var running parts
	for _, p := range d.parts {
		until := ctx
		if p.last {
			until = recording
		}
		running.run(p.name, func() { p.do(until) })
	}
	running.run("monitor", func() { defer recorded(); _ = d.monitor.Run(ctx) })
	kept := make(chan error, 1)
	running.run("ledger", func() { kept <- d.ledger.Run(ctx) })
	running.run("callers", func() { <-ctx.Done(); d.letGo(endStreams) })
	running.run("doors", func() { <-ctx.Done(); doors.close() })
	err = doors.serve()
	cancel() // even if the doors failed
	running.wait(d.patience)
	recorded() // even if the monitor hangs
	endStreams()
	running.run("streams", d.streams.Wait)
	if left := running.wait(leaveLimit); len(left) > 0 {
		d.log.Error("parts of the daemon hang, and are left behind", "parts", left)
	} else {
		d.locks.Close() // a part that hangs may still change its device
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

// ways are the ways in to a daemon.
type ways interface {
	serve() error // until close
	close()
}

// openWays opens the socket and, if configured, the address on TCP. The context of every
// request ends with ctx.
func (d *Daemon) openWays(ctx context.Context, c config.Daemon) (ways, error) {
	if d.simulated != nil {
		return &closed{make(chan struct{})}, nil
	}
	group, known := d.socketGroup(c)
	socket, err := listenSocket(c, group, d.warn)
	if err != nil {
		return nil, err
	}
	d.socket = socket
	if !known {
		d.warn(fmt.Sprintf("there is no group %s (daemon.socket_group), or the user database does not answer: the socket keeps the group of the daemon until it is found", c.SocketGroup))
	}
	return openDoors(ctx, c, d.handler, d.doorkeeper(), d.kernel, &d.shown, d.front, d.exporter.TurnedAway, socket, d.tellListening)
}

// letGo lets callers go once the ledger decides nothing any more, so that those who wait
// keep their places. It does not wait long for a ledger that hangs.
func (d *Daemon) letGo(callers func()) {
	defer callers()
	select {
	case <-d.ledger.Quiet():
	case <-time.After(quietLimit):
	}
}

// doorkeeper returns a doorkeeper that identifies callers by what the kernel says.
func (d *Daemon) doorkeeper() doorkeeper.Doorkeeper {
	return doorkeeper.Doorkeeper{Kernel: d.kernel, Processes: d.processes, Names: d.users, Rules: d.rules.Load, Tokens: d.tokens, Sessions: d.sessions, Tries: d.tries, Limits: d.limits.Load, Named: d.shown.named, Trusts: d.shown.trusts,
		Issued: func(token string, now time.Time) (time.Time, error) { return d.issued.Load().check(token, now) }}
}

// Close closes the devices and the journal. It does not wait for a driver or a disk that
// hangs.
func (d *Daemon) Close() error {
	d.ration.Close()
	if d.audit != nil {
		d.audit.Close()
	}
	closed := make(chan error, 1)
	go func() { closed <- d.closeAll() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(d.closing):
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
	d.govern(c, true)
	d.monitor.Configure(monitoring(c.GPU))
	d.ledger.Configure(d.leasing(c))
	if d.jobs != nil {
		d.jobs.LimitsChanged() // once the ledger has the limits
	}
	d.watchdog.Configure(d.watching(c))
	d.throttle.Configure(&c)
	if d.reclaim != nil {
		d.reclaim.Configure(&c)
		d.parking.Configure(&c)
	}
	d.hooks.Configure(hooking(c))
	d.past.Configure(remembering(c))
	if d.audit != nil {
		d.audit.Configure(auditing(c))
	}
	d.labels.Reserve(slices.Collect(maps.Keys(c.Services)))
	d.passable(c)
	d.serve(c)
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
		Rules:  func(uuid string) thermal.Rules { return monitor.RulesOf(c.For(uuid)) },
	}
}
