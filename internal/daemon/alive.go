package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// How late rules and the past may be, in addition to some of their own intervals:
// soonBehind for a daemon that is ready, longBehind for one that systemd keeps alive.
const (
	soonBehind = 30 * time.Second
	longBehind = 10 * time.Minute
)

// stuck returns an error if something that everything depends on hangs: the clerk of the
// ledger, a sampler, or, for minutes, the evaluation of rules or the storage of samples.
// It takes no lock that they hold.
func (d *Daemon) stuck() error {
	now := time.Now()
	return errors.Join(d.ledger.Stuck(now), d.monitor.Stuck(now), d.behind(now, longBehind))
}

// behind returns an error if an evaluation of rules, or the storage of samples, is late
// by more than patience.
func (d *Daemon) behind(now time.Time, patience time.Duration) error {
	var late []error
	for _, e := range d.alerts.Evaluations() {
		if by := now.Sub(e.Due); by > 2*e.Interval+patience {
			late = append(late, fmt.Errorf("the alert rules of group %q, which are evaluated every %v, are %v late", e.Group, e.Interval, by.Round(time.Second)))
		}
	}
	return errors.Join(append(late, d.pastBehind(now, patience))...)
}

// pastBehind returns an error if the storage of samples is late by more than patience.
func (d *Daemon) pastBehind(now time.Time, patience time.Duration) error {
	if by := d.past.Behind(now); by > patience && by > 3*d.settings.load().Config.GPU.MonitorInterval+patience {
		return fmt.Errorf("the past has stored nothing for %v", by.Round(time.Second))
	}
	return nil
}

// ready returns an error that says why the daemon cannot do its work, or nil if it can.
func (d *Daemon) ready() error {
	return errors.Join(d.stuck(), d.behind(time.Now(), soonBehind), d.ledger.Trouble(), d.asides.hang())
}

// tellSystemd tells systemd when the daemon is up, that it is alive, and when it stops.
// It does nothing outside systemd.
func (d *Daemon) tellSystemd(ctx context.Context) {
	notify := func(state string) { _, _ = systemd.SdNotify(false, state) }
	d.front.await(ctx)
	notify(systemd.SdNotifyReady)
	if limit, err := systemd.SdWatchdogEnabled(false); err == nil && limit > 0 {
		d.tellAlive(ctx, limit/3, notify, d.stuck)
	}
	<-ctx.Done()
	notify(systemd.SdNotifyStopping)
}

// tellAlive tells systemd's watchdog that the daemon is alive, as long as nothing is
// stuck, until ctx ends. Systemd restarts a daemon that does not report in time.
func (d *Daemon) tellAlive(ctx context.Context, every time.Duration, notify func(string), stuck func() error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	wasStuck := false
	for {
		err := stuck()
		switch {
		case err == nil:
			notify(systemd.SdNotifyWatchdog)
		case !wasStuck:
			d.log.Error("the daemon is stuck, and has itself restarted if that goes on", "error", err)
		}
		wasStuck = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
