package park

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// FileName is the name of the file in the state folder.
const FileName = "parked.json"

// document is the content of the file: every lease whose memory may not be on its device.
// A lease is in it before its first process is locked, and until its last one is
// unlocked.
type document struct {
	Boot   string `json:"boot"`
	Leases []kept `json:"leases"`
	// Unknown means that the file before this one was damaged, and that the driver has
	// not yet been asked about every lease.
	Unknown bool `json:"unknown,omitempty"`
}

// recall reads the file, and sets a damaged one aside.
func (p *Parker) recall() *file.Damage {
	if p.Path == "" {
		return nil
	}
	err := file.Check(p.Path, func(text []byte) error {
		d, err := parse(text)
		if err != nil {
			return err
		}
		p.damaged = d.Unknown
		for _, k := range d.Leases {
			if d.Boot != p.Boot {
				k.Processes = nil // they ended with the boot in which they started
			}
			if k.In == (kinship.Mandate{}) { // an earlier version of berth wrote it
				k.In = kinship.OfUser(k.Key.UID)
			}
			p.leases[k.Fence] = &parked{kept: k, mu: &p.mu, changed: make(chan struct{})}
		}
		return nil
	})
	if err == nil {
		return nil
	}
	p.damaged = true
	instead, _ := json.Marshal(document{Boot: p.Boot, Leases: []kept{}, Unknown: true}) // encoding it cannot fail
	return file.SetAside(p.Path, "Which leases are being parked is not known: berth asks the driver about every lease instead.", instead, err)
}

func parse(text []byte) (d document, err error) {
	if err := json.Unmarshal(text, &d); err != nil {
		return d, err
	}
	if d.Boot == "" {
		return d, errors.New("it does not say which boot it is of")
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
func (p *Parker) write() error {
	if p.Path == "" {
		return nil
	}
	d := document{Boot: p.Boot, Leases: []kept{}, Unknown: p.damaged}
	for _, r := range p.leases {
		if r.Phase != "" {
			d.Leases = append(d.Leases, r.kept)
		}
	}
	slices.SortFunc(d.Leases, func(a, b kept) int { return cmp.Compare(a.Fence, b.Fence) })
	text, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = file.ReplaceUnsynced(p.Path, text)
	}
	if err != nil {
		p.Log.Warn("what is parked cannot be written down", "file", p.Path, "error", err)
		return fmt.Errorf("write down what is parked: %w", err)
	}
	return nil
}
