package daemon

import (
	"io"
	"time"

	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/desk/backup"
)

// backUp returns the function that copies the state folder. Nothing opens journals after
// Open, so that it can read d.logs.
func (d *Daemon) backUp(o Options) func(io.Writer, desk.BackupQuery) error {
	return func(to io.Writer, q desk.BackupQuery) error {
		return backup.Write(to, backup.Source{
			Folder: o.Settings.Config.Daemon.StateDir, Logs: d.logs, Secrets: q.Secrets, NoPast: q.NoPast, Version: o.Version, Machine: backup.Here(), Now: time.Now(),
		})
	}
}
