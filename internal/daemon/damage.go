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
	"github.com/berth-gpu/berth/internal/text/words"
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
	mu      sync.Mutex    // guards what follows; nobody waits while holding it
	looked  time.Time     // when the last look began
	looking chan struct{} // closed when the look under way ends; nil if there is none
	list    []string
}

const (
	// asidesLimit is how long who asks for the damaged files waits for a look at the disk.
	asidesLimit = time.Second
	// asidesHang is how long a look lasts before the state folder hangs.
	asidesHang = 10 * time.Second
)

// damaged lists the damaged files that are kept.
func (d *Daemon) damaged() []string { return d.asides.now(d.lookForDamage) }

// now returns what look finds, or what it found last if it takes longer than a moment: the
// disk may hang. Everybody may ask, strangers too, so it looks once a second at most, and
// once at a time.
func (a *asides) now(look func() []string) []string {
	a.mu.Lock()
	if began := time.Now(); a.looking == nil && began.Sub(a.looked) >= time.Second {
		looking := make(chan struct{})
		a.looked, a.looking = began, looking
		go func() {
			list := look()
			a.mu.Lock()
			defer a.mu.Unlock()
			a.list, a.looking = list, nil
			close(looking)
		}()
	}
	looking := a.looking
	a.mu.Unlock()
	if looking != nil {
		select {
		case <-looking:
		case <-time.After(asidesLimit):
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list
}

// hang returns an error if a look at the state folder does not end.
func (a *asides) hang() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if took := time.Since(a.looked); a.looking != nil && took >= asidesHang {
		return fmt.Errorf("the disk of the state folder has not answered for %s", words.Duration(took))
	}
	return nil
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
