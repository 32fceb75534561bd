package daemon

import (
	"path/filepath"

	"github.com/berth-gpu/berth/internal/oversight"
	"github.com/berth-gpu/berth/internal/pacer"
	"github.com/berth-gpu/berth/internal/process"
)

// openPacer opens what holds leases to shares of their devices. A daemon that
// only looks holds nothing, and continues nothing.
func (d *Daemon) openPacer(o Options, processes process.Table) {
	p := pacer.Options{Book: oversight.Pacing{Ledger: d.ledger}, Devices: d.monitor, Event: d.publish, Log: o.Log, Denied: d.denied}
	if !o.ReadOnly {
		p.Guardian, p.Path = o.Guardian, filepath.Join(o.Settings.Config.Daemon.StateDir, pacer.FileName)
		p.Boot, _ = processes.Boot() // without it, nothing is continued that another boot stopped
	}
	d.pacer = pacer.New(p)
}
