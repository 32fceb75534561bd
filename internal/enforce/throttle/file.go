package throttle

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"

	"github.com/berth-gpu/berth/internal/enforce/slowdown"
	"github.com/berth-gpu/berth/internal/file"
)

// kept holds the settings of a device that berth has changed and has to give back.
type kept struct {
	Power *slowdown.Kept `json:"power,omitempty"`
	Fan   bool           `json:"fan,omitempty"`
}

// notes keeps what berth holds in a file, which survives a kill. The file is written
// before a device is changed.
type notes struct {
	file *file.State[map[string]kept]

	mu  sync.Mutex // guards what follows, and is held while the file is written
	all map[string]kept

	late bool // the file still has something that was given back
}

func newNotes(path string) notes {
	return notes{all: map[string]kept{}, file: file.NewState[map[string]kept](path, file.StateOptions{
		What: "what is held", Lost: "Power limits that berth lowered and fans that it holds may stay so: set them by hand, with nvidia-smi --power-limit.",
	})}
}

// read reads the file, by UUID, and sets a damaged one aside.
func (n *notes) read() (map[string]kept, *file.Damage) {
	damage := n.file.Load(func(all map[string]kept) error {
		if all == nil {
			return errors.New("it has no devices")
		}
		for uuid, k := range all {
			if p := k.Power; p != nil && !(sane(float64(p.Original)) && sane(float64(p.Set)) && sane(float64(p.Before))) {
				return fmt.Errorf("%s: there is no such power limit", uuid)
			}
		}
		n.all = all
		return nil
	})
	return maps.Clone(n.all), damage
}

func sane(watts float64) bool { return watts > 0 && watts < math.MaxUint16 }

// adds reports whether k holds something that before does not hold.
func (k kept) adds(before kept) bool {
	return k.Fan && !before.Fan || k.Power != nil && (before.Power == nil || *k.Power != *before.Power)
}

// put writes to the file what berth holds of a device. If that fails, what is held in
// addition is not noted; what was given back is left out with the next write.
func (n *notes) put(uuid string, k kept) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := maps.Clone(n.all)
	if next[uuid] = k; k == (kept{}) {
		delete(next, uuid)
	}
	err := n.file.Save(next)
	if err == nil || !k.adds(n.all[uuid]) {
		n.all, n.late = next, err != nil
	}
	return err
}

// settle writes what could not be written when it was given back, and reports whether
// nothing of that is left.
func (n *notes) settle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.late {
		n.late = n.file.Save(n.all) != nil
	}
	return !n.late
}
