package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/park/mover"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/history/past"
)

// vital lists the state files without which the daemon does not do something that users
// rely on.
var vital = []string{inventory.Saved, inventory.Tokens, inventory.Drains, inventory.Health, inventory.Throttle, mover.FileName, pace.FileName}

// tellDamage publishes which state files are damaged. It skips nil. A file that could not
// be read ends the start.
func (n *news) tellDamage(list ...*file.Damage) {
	for _, damage := range list {
		if damage == nil {
			continue
		}
		name := filepath.Base(damage.Path)
		if damage.Unread { // whole, perhaps: without it, the daemon would forget what it says for good
			n.unread = errors.Join(n.unread, fmt.Errorf("read the state file %s: %w", name, damage.Err))
			continue
		}
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
		n.publish(e)
	}
}

// asides has the damaged files that are kept in the state folder until somebody has looked
// at them and removes them.
type asides struct {
	mu     sync.Mutex // guards what follows
	looked time.Time
	list   []string
}

// damaged lists the damaged files that are kept. Everybody may ask for them, strangers
// too, so the daemon looks once a second at most.
func (d *Daemon) damaged() []string {
	a := &d.asides
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.looked) >= time.Second {
		a.list, a.looked = d.lookForDamage(), now
	}
	return a.list
}

func (d *Daemon) lookForDamage() (list []string) {
	state := d.settings.load().Config.Daemon.StateDir
	list = file.Asides(state)
	for _, name := range file.Asides(filepath.Join(state, inventory.Events)) {
		list = append(list, filepath.Join(inventory.Events, name))
	}
	entries, _ := os.ReadDir(filepath.Join(state, inventory.Measured, past.AsideName)) // empty if there is no folder
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") { // the past is still opening
			list = append(list, filepath.Join(inventory.Measured, past.AsideName, e.Name()))
		}
	}
	return list
}
