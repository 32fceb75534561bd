package daemon

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/door/promexport"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/file"
)

// paced returns the leases that are held to a share, for the metrics.
func (d *Daemon) paced() []promexport.Paced {
	var list []promexport.Paced
	for _, p := range d.pacer.Held() {
		held, found := d.ledger.Find(p.Key)
		if !found || p.Refused != "" {
			continue
		}
		one := promexport.Paced{Share: p.Share()}
		if p.Cycles > 0 {
			one.Measured = gpu.Some(p.Measured.Share)
		}
		for _, part := range held.Parts {
			one.GPUs = append(one.GPUs, part.GPU)
		}
		list = append(list, one)
	}
	return list
}

// openPacer opens the pacer, which holds leases to shares of their devices. In a daemon
// that only looks it holds nothing, and continues nothing.
func (d *Daemon) openPacer(o Options) (err error) {
	p := pace.Options{Leases: d.ledger, Devices: d.monitor, Event: d.publish, Log: o.Log, Denied: d.denied, Path: o.state(pace.FileName)}
	if !o.ReadOnly {
		p.Guardian = o.Guardian
		if p.Boot, err = d.processes.Boot(); err != nil {
			return err // what an earlier daemon has stopped would be forgotten
		}
	}
	var damage *file.Damage
	d.pacer, damage = pace.New(p)
	d.tellDamage(damage)
	d.run("pacer", d.pacer.Run)
	return nil
}
