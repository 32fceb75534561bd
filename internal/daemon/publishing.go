package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/door/promexport"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/history/events"
	"github.com/berth-gpu/berth/internal/history/hooks"
)

// publisher returns the function that every event goes through. It trims the event first,
// so that nothing larger gets any further, and drops events beyond the ration of a user:
// they reach neither the log, a stream nor a hook.
func (d *Daemon) publisher(ctx context.Context, exporter *promexport.Exporter) func(gpu.Event) {
	return func(e gpu.Event) {
		e = e.Trimmed()
		exporter.Event(e)
		if !d.ration.Admit(&e) {
			exporter.Lost(e.Severity, promexport.Rationed)
			return
		}
		d.events.Publish(e)
		if l := level(e); d.log.Enabled(ctx, l) {
			d.log.Log(ctx, l, e.Text, "code", e.Code, "gpu", e.GPU)
		}
	}
}

// openEvents opens the rations of users and the hooks, which get every event from the
// first one on.
func (d *Daemon) openEvents(o Options, host string, exporter *promexport.Exporter) {
	d.ration = events.NewRation(d.publish)
	path, state := "", o.Settings.Config.Daemon.StateDir
	var recalled *file.Damage
	if !o.ReadOnly {
		path, d.remembered = filepath.Join(state, hooksName), file.PrivateDir(filepath.Join(state, eventsName))
		recalled = d.events.Recall(d.remembered)
	}
	d.hooks = hooks.New(hooks.Options{
		File: path, Complain: func(err error) { d.log.Warn(err.Error()) },
		Hooks: hooking(o.Settings.Config), Call: d.hookCalls(host, o.Version), Event: d.publish, Count: exporter.Delivery, Dropped: exporter.HookDropped,
	})
	undelivered := d.hooks.Recall()
	d.events.Attach(d.hooks.Offer, func(e gpu.Event) { exporter.Lost(e.Severity, promexport.Displaced) })
	d.tellDamage(recalled, undelivered) // hooks get these events, too
}

// rememberEvents writes events to the state folder, for the next daemon, until the
// returned function is called. That function waits until the events are written, unless
// the disk hangs.
func (d *Daemon) rememberEvents(ctx context.Context) (stop func()) {
	if d.remembered == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	written := make(chan struct{})
	go func() {
		defer close(written)
		d.events.Keep(ctx, d.remembered, func(err error) { d.log.Warn(err.Error()) })
	}()
	return func() {
		cancel()
		select {
		case <-written:
		case <-time.After(leaveLimit):
			d.log.Error("the newest events are not written: the disk hangs")
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
