package energy

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
)

const (
	writeEvery = 30 * time.Second
	// writeIdle is how often the file is written while no lease uses a device.
	writeIdle = 5 * time.Minute
)

// document is the content of the file. The same version may get a new field if a reader
// that does not know the field still understands the rest.
type document struct {
	Version  int               `json:"version"`
	Devices  map[string]*Meter `json:"devices"` // by UUID
	Leases   map[uint64]*use   `json:"leases"`  // by fence
	Accounts []account         `json:"accounts"`
}

type account struct {
	Account
	Energy Amount `json:"energy_uj"`
}

const version = 1

// Open reads the file at path, or begins one there. It sets a damaged file aside, and
// begins anew: the record of energy is not worth refusing to start.
func Open(path string, o Options) (*Meters, *file.Damage) {
	ms := New(o)
	damage := file.Load(path, "How much energy was used before is lost, and sums begin anew.", func(text []byte) error {
		var d document
		if err := json.Unmarshal(text, &d); err != nil {
			return err
		}
		if d.Version != version {
			return fmt.Errorf("it has version %d, and this berth knows version %d", d.Version, version)
		}
		return ms.take(d)
	})
	if damage != nil {
		ms = New(o) // discard what was taken before the damage showed
	}
	ms.path = path
	return ms, damage
}

// take takes over the content of a file, unless its sums are wrong.
func (ms *Meters) take(d document) error {
	for uuid, one := range d.Devices {
		if one == nil || !one.Sound() {
			return fmt.Errorf("the parts of device %s do not add up", uuid)
		}
		ms.devices[uuid] = &unit{Meter: *one}
	}
	for fence, u := range d.Leases {
		if u == nil || u.Energy < 0 || u.Work < 0 || !(u.Seconds >= 0) {
			return fmt.Errorf("the lease with fence %d used less than nothing", fence)
		}
		u.Account = ms.account(u.Account)
		for uuid := range ms.devices {
			u.devices = append(u.devices, uuid) // it may not have been on all of them, but leaving a device that it was not on changes nothing
		}
		ms.leases[fence] = u
	}
	for _, a := range d.Accounts {
		if a.Energy < 0 {
			return fmt.Errorf("%s used less than nothing", a.User)
		}
		ms.accounts[ms.account(a.Account)] += a.Energy
	}
	return nil
}

// Recall drops the leases that no longer exist: they ended while no daemon ran, or the
// journal is another one.
func (ms *Meters) Recall(standing []*lease.Lease) {
	ids := map[uint64]string{}
	for _, l := range standing {
		ids[l.Fence] = l.ID
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for fence, u := range ms.leases {
		if id, stands := ids[fence]; stands && id == u.ID {
			continue
		}
		for _, one := range ms.devices {
			one.Leave(fence, one.Last.At, 0)
		}
		delete(ms.leases, fence)
	}
}

// Run asks drivers how devices are divided, and writes the file, until ctx ends.
func (ms *Meters) Run(ctx context.Context) error {
	write := time.NewTimer(writeEvery)
	defer write.Stop()
	for {
		select {
		case <-ctx.Done():
			return ms.write()
		case <-ms.divided:
			ms.ask(ctx, time.Now())
		case <-write.C:
			_ = ms.write() // if it fails, the next write tries again, and so does the last one
			write.Reset(ms.pause())
		}
	}
}

// pause returns how long to wait before the next write.
func (ms *Meters) pause() time.Duration {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if len(ms.leases) > 0 {
		return writeEvery
	}
	return writeIdle
}

// write replaces the file. It does not sync it, because that would cost the disk more
// than the data is worth.
func (ms *Meters) write() error {
	if ms.path == "" {
		return nil
	}
	text, err := ms.encode()
	if err == nil {
		err = file.ReplaceUnsynced(ms.path, text)
	}
	if err != nil {
		return fmt.Errorf("write how much energy was used: %w", err)
	}
	return nil
}

func (ms *Meters) encode() ([]byte, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	d := document{Version: version, Devices: make(map[string]*Meter, len(ms.devices)), Leases: ms.leases}
	for uuid, u := range ms.devices {
		d.Devices[uuid] = &u.Meter
	}
	for a, amount := range ms.accounts {
		d.Accounts = append(d.Accounts, account{a, amount})
	}
	return json.Marshal(d)
}
