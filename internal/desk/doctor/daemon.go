package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/text/words"
)

// daemon looks for a running daemon and asks it how it is.
func (d *Doctor) daemon(ctx context.Context) (running bool, found []Finding) {
	c := d.Daemon
	if c == nil {
		return false, []Finding{{"daemon", Broken, d.Unreachable.Error(), ""}}
	}
	all, err := c.StatusAll(ctx)
	if err != nil {
		return false, []Finding{trouble(err)}
	}
	found = []Finding{d.version(all)}
	if held, err := c.Leases(ctx); err == nil {
		found = append(found, Finding{Topic: "leases", Grade: Fine,
			Text: fmt.Sprintf("%s, %d waiting", words.Count(len(held.Leases), "lease"), len(held.Waiting))})
	}
	found = append(found, journalOf(ctx, c)...)
	if strays, err := c.Orphans(ctx); err == nil && len(strays.Orphans) > 0 {
		found = append(found, Finding{"orphans", Notice, words.Count(len(strays.Orphans), "orphan") + ": processes on a GPU whose lease has ended", "look at them: berth leases --orphans"})
	}
	found = append(found, services(ctx, c)...)
	for _, g := range all.GPUs {
		if !g.Well() {
			found = append(found, Finding{"device", Notice, fmt.Sprintf("GPU %d is %s: %s", g.Device.Index, g.State, g.Reason), ""})
		}
	}
	if all.Note != "" && len(all.GPUs) > 0 {
		found = append(found, Finding{"daemons", Notice, all.Note, "stop one of the two daemons"})
	}
	if !all.Monitoring {
		found = append(found, Finding{"monitoring", Notice, "it is stopped, so all numbers are old", "start it: POST /api/gpu/monitoring/start"})
	}
	return true, found
}

// journalOf asks a daemon whether it can write its journal. A daemon that cannot grants
// nothing.
func journalOf(ctx context.Context, c Daemon) []Finding {
	ready, err := c.Ready(ctx)
	if err != nil {
		return []Finding{{"journal", Broken, err.Error(), "make room on the disk of the state folder, or look at the log of the daemon"}}
	}
	found := []Finding{{Topic: "journal", Grade: Fine, Text: "can be written"}}
	if _, limits, contained := strings.Cut(ready.Text, "Ready, with limits. "); contained {
		found = append(found, Finding{"container", Notice, limits, "berth help access says what a daemon in a container can and cannot do"})
	}
	if ready.Past != "" {
		found = append(found, Finding{Topic: "past", Grade: Fine, Text: ready.Past})
	}
	for _, name := range ready.Damaged {
		found = append(found, damagedFile(name))
	}
	if ready.Faults != "" {
		found = append(found, Finding{"daemon", Notice, ready.Faults, "look for stack in the log of the daemon, and report it"})
	}
	if ready.Listen != "" {
		found = append(found, Finding{"listen", Notice, ready.Listen, "stop what has the port, or choose another with daemon.listen and restart the daemon"})
	}
	if ready.Audit != "" {
		found = append(found, Finding{"audit", Broken, ready.Audit, "the log of the daemon says why; make room on the disk of the state folder, or run berth audit verify"})
	}
	return found
}

// damagedFile reports a damaged state file that a daemon keeps.
func damagedFile(name string) Finding {
	return Finding{"state", Notice, "a state file was damaged and is kept as " + name, "berth events --code state_damaged --code past says what it costs; look at the file, and remove it"}
}

// version compares the daemon with the program that asks.
func (d *Doctor) version(all api.StatusAll) Finding {
	f := Finding{Topic: "daemon", Grade: Fine, Text: fmt.Sprintf("runs, version %s, %s", all.Version, words.Count(len(all.GPUs), "GPU"))}
	if all.Version != d.Version {
		f.Grade = Notice
		f.Text += fmt.Sprintf("; this command is version %s", d.Version)
		f.Next = "restart the daemon after an update"
	}
	return f
}

// trouble reports why a daemon cannot be asked.
func trouble(err error) Finding {
	missing := (*client.NoDaemonError)(nil)
	switch {
	case !errors.As(err, &missing):
		return Finding{"daemon", Broken, "it is there, but answers wrongly: " + err.Error(), "look at its log, and restart it"}
	case errors.Is(err, fs.ErrPermission):
		return Finding{"daemon", Broken, err.Error(), missing.Hint()}
	}
	return Finding{"daemon", Notice, err.Error(), missing.Hint()}
}
