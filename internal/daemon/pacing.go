package daemon

import (
	"path/filepath"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/desk/oversight"
	"github.com/berth-gpu/berth/internal/door/promexport"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/process"
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
func (d *Daemon) openPacer(o Options, processes process.Table) {
	p := pace.Options{Leases: oversight.Pacing{Ledger: d.ledger}, Devices: d.monitor, Event: d.publish, Log: o.Log, Denied: d.denied}
	if !o.ReadOnly {
		p.Guardian, p.Path = o.Guardian, filepath.Join(o.Settings.Config.Daemon.StateDir, pace.FileName)
		p.Boot, _ = processes.Boot() // without it, the pacer continues nothing that another boot stopped
	}
	holds, damage := pace.New(p)
	d.pacer = holds
	d.tellDamage(damage)
}
