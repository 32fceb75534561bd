package energy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
)

const (
	// writeEvery is how much energy a daemon that was killed has to count again: until it
	// has, it cannot tell whose it was.
	writeEvery = 10 * time.Second
	// writeIdle is how often the file is written while no lease uses a device.
	writeIdle = 5 * time.Minute
)

// document is the content of the file.
type document struct {
	Devices  map[string]*Meter `json:"devices"` // by UUID
	Leases   map[uint64]*use   `json:"leases"`  // by fence
	Accounts []account         `json:"accounts"`
	Services map[string]Amount `json:"services,omitempty"` // by label
	Users    map[string]Amount `json:"users"`              // by label; berth 0.1.0 has none, see OfOlder
}

type account struct {
	Account
	Energy Amount `json:"energy_uj"`
}

func newState(path string) *file.State[json.RawMessage] {
	return file.NewState[json.RawMessage](path, file.StateOptions{
		What: "how much energy was used", Version: 1, Lost: "How much energy was used before is lost, and sums begin anew.",
	})
}

// OfOlder reports whether the last daemon that wrote the file at path was of a version of
// berth that keeps no sums of users.
func OfOlder(path string) (older bool) {
	_ = newState(path).Read(func(text json.RawMessage) error { // Open reports what is wrong with it
		var d document
		older = json.Unmarshal(text, &d) == nil && d.Users == nil
		return nil
	})
	return older
}

// Open reads the file at path, or begins one there. It sets a damaged file aside, and
// begins anew: what was used is not worth refusing to start.
func Open(path string, o Options) (*Meters, *file.Damage) {
	ms := New(o)
	ms.file, ms.volatile = newState(path), false
	damage := ms.file.Load(func(text json.RawMessage) error {
		var d document
		if err := json.Unmarshal(text, &d); err != nil {
			return err
		}
		return ms.take(d)
	})
	if damage != nil { // discard what was taken before the damage showed
		ms = New(o)
		ms.file, ms.volatile = newState(path), false
	}
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
	for _, each := range []struct {
		sums *sums
		read map[string]Amount
	}{{&ms.services, d.Services}, {&ms.users, d.Users}} {
		for label, amount := range each.read {
			if amount < 0 {
				return fmt.Errorf("%s used less than nothing", label)
			}
			each.sums.before[label] = amount
		}
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
	ms.file.Change(writeEvery)
	written := make(chan error, 1)
	go func() { written <- ms.file.Run(ctx, ms.write, nil) }()
	for {
		select {
		case <-ctx.Done():
			return <-written
		case <-ms.divided:
			ms.ask(ctx, time.Now())
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

// write replaces the file. It waits for the disk: some file systems rename a file before
// they have its text, and a power loss would then take all sums.
func (ms *Meters) write() error {
	ms.file.Change(ms.pause())
	text, services, users, err := ms.encode()
	if err != nil {
		return err
	}
	if err := ms.file.Save(text); err != nil {
		return err
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.services.kept, ms.users.kept = services, users
	return nil
}

// encode returns the content of the file, and the sums in it that are shown.
func (ms *Meters) encode() (text []byte, services, users map[string]Amount, err error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	d := document{Devices: make(map[string]*Meter, len(ms.devices)), Leases: ms.leases, Services: ms.services.all(), Users: ms.users.all()}
	for uuid, u := range ms.devices {
		d.Devices[uuid] = &u.Meter
	}
	for a, amount := range ms.accounts {
		d.Accounts = append(d.Accounts, account{a, amount})
	}
	slices.SortFunc(d.Accounts, func(a, b account) int { return cmp.Compare(ms.turns[a.Account], ms.turns[b.Account]) }) // take keeps the order
	text, err = json.Marshal(d)
	return text, maps.Clone(ms.services.now), maps.Clone(ms.users.now), err
}
