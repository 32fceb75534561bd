package parking

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/berth-gpu/berth/internal/wholefile"
)

// FileName is the name of the file in the state folder.
const FileName = "parked.json"

// document is what the file holds: every lease whose memory may not be on its
// device. A lease is in it before its first process is locked, and until its last
// one is unlocked.
type document struct {
	Boot   string `json:"boot"`
	Leases []kept `json:"leases"`
}

// recall reads the file. A file that cannot be read is set aside for people.
func (p *Parking) recall() {
	if p.Path == "" {
		return
	}
	d, err := read(p.Path)
	if err != nil {
		p.damaged = true
		aside := p.Path + ".unreadable"
		p.Log.Warn("the file of parked leases cannot be read: berth asks the driver about every lease instead", "file", p.Path, "kept as", aside, "error", err)
		if err := os.Rename(p.Path, aside); err != nil {
			p.Log.Warn("the unreadable file of parked leases cannot be set aside", "error", err)
		}
		return
	}
	for _, k := range d.Leases {
		if d.Boot != p.Boot {
			k.Processes = nil // they ended with the boot that they were started in
		}
		p.leases[k.Fence] = &parked{kept: k, mu: &p.mu, changed: make(chan struct{})}
	}
}

func read(path string) (document, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return document{}, nil
	}
	var d document
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	for _, k := range d.Leases {
		for _, m := range k.Processes {
			if m.PID <= 1 || m.Memory < 0 {
				err = errors.Join(err, fmt.Errorf("lease %d: process %d with %d MiB cannot be", k.Fence, m.PID, m.Memory))
			}
		}
	}
	return d, err
}

// write writes the file. The caller holds mu. Processes do not survive a power
// loss, so the file does not have to either.
func (p *Parking) write() error {
	if p.Path == "" {
		return nil
	}
	d := document{Boot: p.Boot, Leases: []kept{}}
	for _, r := range p.leases {
		if r.Phase != "" {
			d.Leases = append(d.Leases, r.kept)
		}
	}
	slices.SortFunc(d.Leases, func(a, b kept) int { return cmp.Compare(a.Fence, b.Fence) })
	text, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = wholefile.WriteUnsynced(p.Path, text)
	}
	if err != nil {
		p.Log.Warn("what is parked cannot be written down", "file", p.Path, "error", err)
		return fmt.Errorf("write down what is parked: %w", err)
	}
	return nil
}
