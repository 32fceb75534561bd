package daemon

import (
	"context"
	"errors"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// stuck returns an error if a goroutine that everything depends on hangs: the
// clerk of the ledger, or a sampler. It takes no lock that they hold.
func (d *Daemon) stuck() error {
	now := time.Now()
	return errors.Join(d.ledger.Stuck(now), d.monitor.Stuck(now))
}

// ready returns an error that says why the daemon cannot do its work; nil if it
// can.
func (d *Daemon) ready() error { return errors.Join(d.stuck(), d.ledger.Trouble()) }

// tellSystemd tells systemd that the daemon is up, is alive, and stops. Outside
// systemd there is nobody to tell.
func (d *Daemon) tellSystemd(ctx context.Context) {
	notify := func(state string) { _, _ = systemd.SdNotify(false, state) }
	notify(systemd.SdNotifyReady)
	if limit, err := systemd.SdWatchdogEnabled(false); err == nil && limit > 0 {
		d.tellAlive(ctx, limit/3, notify, d.stuck)
	}
	<-ctx.Done()
	notify(systemd.SdNotifyStopping)
}

// tellAlive tells systemd's watchdog that the daemon is alive, for as long as
// nothing is stuck, until ctx ends. Systemd restarts a daemon that does not say
// so in time.
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
