package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// ResidueFile is the name of the file with proofs in the state folder of the daemon.
const ResidueFile = "residue.json"

// version is that of the file.
const version = 1

// Proof is the result of one check: a program filled memory of a device and ended, and
// the next one looked for what was left.
type Proof struct {
	Driver  string    `json:"driver"`       // version
	Device  string    `json:"device"`       // model
	Checked time.Time `json:"checked"`      // when
	Looked  int64     `json:"looked_bytes"` // how much was looked at
	Left    int64     `json:"left_bytes"`   // how much of that was not zero
	By      string    `json:"by,omitempty"` // what checked it, for people
}

// Proofs are the checks of a machine. A check of a driver version and a device model
// holds for all devices with both.
type Proofs []Proof

// ParseProofs reads the file. It refuses unknown content: a misread check would claim
// what is not true.
func ParseProofs(text []byte) (Proofs, error) {
	var file struct {
		Version int    `json:"version"`
		Proofs  Proofs `json:"proofs"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the end")
	}
	if file.Version != version {
		return nil, fmt.Errorf("its version is %d, and this program reads version %d", file.Version, version)
	}
	for _, p := range file.Proofs {
		if p.Driver == "" || p.Device == "" || p.Checked.IsZero() || p.Looked <= 0 || p.Left < 0 || p.Left > p.Looked {
			return nil, fmt.Errorf("the check of driver %q and device %q is not whole: it needs driver, device, checked, looked_bytes and left_bytes", p.Driver, p.Device)
		}
	}
	return file.Proofs, nil
}

// NotChecked is the answer of ClearedBy if nothing is known.
const NotChecked = "not checked"

// ClearedBy says who clears the memory of these devices between two programs, and when
// that was last checked: "driver, checked 2026-11-15". It returns NotChecked unless every
// device was checked with its driver, and "nobody" if anything was left on one of them.
func (all Proofs) ClearedBy(devices []gpu.Device) string {
	var oldest time.Time
	who := "driver"
	for _, d := range devices {
		last, found := all.of(d)
		if !found {
			return NotChecked
		}
		if last.Left > 0 {
			who = "nobody"
		}
		if oldest.IsZero() || last.Checked.Before(oldest) {
			oldest = last.Checked
		}
	}
	if oldest.IsZero() {
		return NotChecked
	}
	return who + ", checked " + oldest.UTC().Format(time.DateOnly)
}

// of returns the last check that holds for a device.
func (all Proofs) of(d gpu.Device) (last Proof, found bool) {
	for _, p := range all {
		if p.Driver == d.Driver && p.Device == d.Name && !p.Checked.Before(last.Checked) {
			last, found = p, true
		}
	}
	return last, found
}

// Trace says whose programs may have left something in the free memory of a
// device. The zero Trace says that anybody's may have.
type Trace struct {
	known bool
	users []string
}

// TraceOf returns the trace of a device whose free memory was overwritten, and on which
// programs of these users run, or are about to run.
func TraceOf(users ...string) Trace {
	slices.Sort(users)
	return Trace{known: true, users: slices.Compact(users)}
}

// Used returns the trace after a user has had memory of the device, too.
func (t Trace) Used(user string) Trace {
	if !t.known {
		return t
	}
	return TraceOf(append(slices.Clone(t.users), user)...)
}

// Others reports whether anybody but user may have left something.
func (t Trace) Others(user string) bool {
	return !t.known || slices.ContainsFunc(t.users, func(other string) bool { return other != user })
}
