package daemon

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/door/promexport"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/history/events"
	"github.com/berth-gpu/berth/internal/history/hooks"
	"github.com/berth-gpu/berth/internal/lease"
)

// news is how events travel: they are counted, rationed, kept for readers, sent to hooks
// and logged.
type news struct {
	log        *slog.Logger
	host       string // name of the machine
	exporter   *promexport.Exporter
	labels     *promexport.Names
	events     *events.Log
	ration     *events.Ration
	hooks      *hooks.Hooks
	faults     *fault.Faults
	remembered file.Folder // folder of events across restarts; nil if they are not kept
	unread     error       // why state files could not be read, which ends the start
}

// publish passes on an event. It trims the event first, so that nothing larger gets any
// further, and drops events beyond the ration of a user: they reach neither the log, a
// stream nor a hook.
func (n *news) publish(e gpu.Event) {
	e = e.Trimmed()
	n.exporter.Event(e)
	if !n.ration.Admit(&e) {
		n.exporter.Lost(e.Severity, promexport.Rationed)
		return
	}
	n.events.Publish(e)
	if l := level(e); n.log.Enabled(context.Background(), l) {
		n.log.Log(context.Background(), l, e.Text, "code", e.Code, "gpu", e.GPU)
	}
}

// publishLate passes on an event whose sentence is made when somebody reads it. Of a
// warning that is now: publish may drop it.
func (n *news) publishLate(notice lease.Notice) {
	if notice.Rest == nil || notice.Severity.AtLeast(gpu.Warning) || n.log.Enabled(context.Background(), level(notice.Event)) {
		n.publish(notice.Whole())
		return
	}
	n.exporter.Event(notice.Event)
	n.events.PublishLate(notice.Event, notice.Rest)
}

// openNews opens the metrics, the rations of users and the hooks, which get every event
// from the first one on.
func (d *Daemon) openNews(o Options) error {
	c := o.Settings.Config
	n := &news{log: o.Log, labels: &promexport.Names{}, events: events.New(eventsKept, time.Now())}
	n.host, _ = os.Hostname() // the machine may have no name
	n.labels.Reserve(slices.Collect(maps.Keys(c.Services)))
	d.news = n
	n.exporter = promexport.New(promexport.Sources{
		Labels: n.labels, Hooks: slices.Sorted(maps.Keys(c.Hooks)), TokenFailures: sessions.TryReasons(), Host: n.host, Version: o.Version,
	})
	n.ration = events.NewRation(n.publish)
	n.faults = &fault.Faults{Log: o.Log, Publish: n.publish}
	var recalled *file.Damage
	if !o.ReadOnly {
		n.remembered = file.PrivateDir(o.state(inventory.Events))
		recalled = n.events.Recall(n.remembered)
	}
	web := hooks.NewWeb(n.host, o.Version, nil)
	n.hooks = hooks.New(hooks.Options{
		File: o.state(inventory.Hooks), Complain: func(err error) { n.log.Warn(err.Error()) },
		Hooks: hooking(c), Call: hookCalls(web, n.log), Event: n.publish, Count: n.exporter.Delivery, Dropped: n.exporter.HookDropped,
	})
	undelivered := n.hooks.Recall()
	n.events.Attach(n.hooks.Offer, func(e *events.Entry) { n.exporter.Lost(e.Head().Severity, promexport.Displaced) })
	n.tellDamage(recalled, undelivered) // hooks get these events, too
	d.run("hooks", func(ctx context.Context) { n.hooks.Run(ctx); web.Close() })
	return nil
}

// rememberEvents writes events to the state folder, for the next daemon, until the
// returned function is called. That function waits until the events are written, unless
// the disk hangs.
func (n *news) rememberEvents(ctx context.Context) (stop func()) {
	if n.remembered == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	written := make(chan struct{})
	go func() {
		defer close(written)
		n.events.Keep(ctx, n.remembered, func(err error) { n.log.Warn(err.Error()) })
	}()
	return func() {
		cancel()
		select {
		case <-written:
		case <-time.After(leaveLimit):
			n.log.Error("the newest events are not written: the disk hangs")
		}
	}
}

// level returns the level at which an event is logged. What users cause in normal
// operation belongs in the event stream: it would fill the log of a busy machine, and a
// user could fill the disk with it.
func level(e gpu.Event) slog.Level {
	switch _, owned := events.Owner(&e); {
	case e.Severity == gpu.Serious:
		return slog.LevelError
	case e.Severity == gpu.Warning:
		return slog.LevelWarn
	case owned:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
