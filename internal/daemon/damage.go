package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/history/past"
)

// vital are the state files without which the daemon does not do what somebody
// relies on.
var vital = []string{savedName, tokensName, drainsName, healthName, throttleName, park.FileName, pace.FileName}

// tellDamage tells in the log and in events which state files are damaged; nil is
// one that is not.
func (d *Daemon) tellDamage(list ...*file.Damage) {
	for _, damage := range list {
		if damage == nil {
			continue
		}
		name := filepath.Base(damage.Path)
		e := gpu.Event{
			Time: time.Now(), Code: gpu.EventStateDamaged, Severity: gpu.Warning, Text: damage.String(),
			Public: fmt.Sprintf("The state file %s is damaged.", name), Data: map[string]any{"file": name},
		}
		if slices.Contains(vital, name) {
			e.Severity = gpu.Serious
		}
		if damage.Aside != "" {
			e.Data["aside"] = filepath.Base(damage.Aside)
		}
		d.publish(e)
	}
}

// damaged lists the damaged files that are kept in the state folder: somebody still
// has to look at them. Who has done so removes them.
func (d *Daemon) damaged() (list []string) {
	state := d.settings.load().Config.Daemon.StateDir
	list = file.Asides(state)
	for _, name := range file.Asides(filepath.Join(state, eventsName)) {
		list = append(list, filepath.Join(eventsName, name))
	}
	entries, _ := os.ReadDir(filepath.Join(state, pastName, past.AsideName)) // none if there is no folder
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") { // the past is opening
			list = append(list, filepath.Join(pastName, past.AsideName, e.Name()))
		}
	}
	return list
}
