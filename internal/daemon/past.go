package daemon

import (
	"context"
	"net"
	"time"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/door/promexport"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/history/past"
	"github.com/berth-gpu/berth/internal/history/query"
	"github.com/berth-gpu/berth/internal/history/series"
)

// restEvery is how often everything that is not about devices is stored: leases, queues
// and counters.
const restEvery = 10 * time.Second

// chronicle is the store of what was measured, and what answers from it. A daemon that
// only looks has none.
type chronicle struct {
	past     *past.Past
	recorder *promexport.Recorder
	engine   *query.Engine
}

// openPast creates the store of the past, and the engine that answers queries about it.
// Nothing is opened before runPast.
func (d *Daemon) openPast(o Options) error {
	if o.ReadOnly {
		return nil
	}
	c := o.Settings.Config
	folder := o.state(inventory.Measured)
	d.past = past.New(folder, past.Options{Settings: remembering(c), Log: o.Log, Event: d.publish})
	d.recorder = d.exporter.Recorder(instance(d.host, c.Daemon.Listen))
	if size := past.Size(folder); !d.past.On() && size > 0 {
		o.Log.Info("the past is off, and an earlier one is left alone: remove its folder if nobody needs it", "folder", folder, "mb", size>>20)
	}
	limits := query.Default()
	limits.Most = d.past.Most
	d.engine = query.New(whenOpen(d.past.Queryable()), limits)
	d.runLast("past", d.keepPast)
	return nil
}

// remembering returns the settings of the past.
func remembering(c config.Config) past.Settings {
	return past.Settings{Off: c.Past.Store == "off", Recent: c.Past.Recent, Long: c.Past.Long, Size: c.Past.Size, Every: c.GPU.MonitorInterval}
}

// instance names a machine as a Prometheus that scrapes it would.
func instance(host, listen string) string {
	if host == "" {
		host = "localhost"
	}
	if _, port, err := net.SplitHostPort(listen); err == nil && port != "" && port != "0" {
		return net.JoinHostPort(host, port)
	}
	return host
}

// runPast hands every sample of the devices to the past, and the rest of the page every
// few seconds, until ctx ends.
func (d *Daemon) runPast(ctx context.Context) {
	var done remembered
	d.addUp(time.Now())
	d.recordMissed(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done(): // what happened since the last samples must not be missing
			now := time.Now()
			d.addUp(now)
			before, rest := d.restOf(now, now)
			done.held = append(done.held, before, moment{now, rest})
			d.handOver(&done)
			return
		case <-timer.C:
		}
		interval := d.settings.load().Config.GPU.MonitorInterval
		next := d.remember(time.Now(), interval, &done)
		if !d.past.On() {
			interval, next = restEvery, next.Add(restEvery)
		}
		timer.Reset(min(max(time.Until(next), time.Millisecond), interval))
	}
}

// heldFor is how long samples are held before they are handed over together. On an idle
// machine, a write to the disk every second would cost more than the samples.
const heldFor = 2 * time.Second

// remembered tracks what was handed over to the past.
type remembered struct {
	last time.Time // time of the newest samples
	rest time.Time // when the rest of the page is due
	held []moment  // samples to hand over next
}

// moment holds the samples of one time.
type moment struct {
	at   time.Time
	list []series.Sample
}

// handOver hands the held samples to the past, which counts those that it drops.
func (d *Daemon) handOver(done *remembered) {
	for _, m := range done.held {
		_ = d.past.Append(m.at, m.list)
	}
	done.held = done.held[:0]
}

// remember takes the samples that are due, hands them over every few seconds, and returns
// when more are due. Times on a grid take half the space.
func (d *Daemon) remember(now time.Time, interval time.Duration, done *remembered) (next time.Time) {
	at := now.Truncate(interval)
	fresh := d.past.On() && !at.Equal(done.last)                                                 // a slewed clock may wake it early
	due := (fresh || !d.past.On()) && (!now.Before(done.rest) || done.rest.Sub(now) > restEvery) // the clock may have gone back
	if due {
		done.rest = now.Add(restEvery)
		d.addUp(now) // it walks all leases
	}
	if fresh {
		done.last = at
		list := d.recorder.Devices()
		if due {
			before, rest := d.restOf(now, at)
			done.held, list = append(done.held, before), append(list, rest...)
		}
		done.held = append(done.held, moment{at, list})
		if since := at.Sub(done.held[0].at); since >= heldFor || since < 0 || interval > heldFor {
			d.handOver(done)
		}
	}
	return at.Add(interval)
}

// keepPast measures for the past until ctx ends, stores that, and then closes the store.
func (d *Daemon) keepPast(ctx context.Context) {
	if d.past == nil {
		return
	}
	storing, recorded := context.WithCancel(context.WithoutCancel(ctx))
	go func() { defer recorded(); d.runPast(ctx) }()
	d.past.Run(storing)
	if err := d.past.Close(); err != nil {
		d.log.Warn("cannot close the past", "error", err)
	}
}
