package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// heldStatus returns devices with leases on them.
func heldStatus() api.StatusAll {
	all := someStatus()
	all.GPUs = all.GPUs[:2]
	on := func(id, service, user string, memory, measured gpu.MiB, slots int) api.DeviceLease {
		return api.DeviceLease{ID: id, Holder: api.Holder{Service: service, User: user}, State: "active", Memory: memory, Measured: measured, Slots: slots, Granted: now.Add(-time.Hour)}
	}
	parked := on("idle", "sleeper", "carol", 8192, 4, 1)
	parked.State = "parked"
	all.GPUs[0].Leases = []api.DeviceLease{
		on("train", "", "bob", 61440, 70000, 1), on("embedder-1", "embedder", "anna", 4096, 3000, 0), on("embedder-2", "embedder", "anna", 4096, 0, 0), parked,
	}
	for i := range 12 {
		all.GPUs[1].Leases = append(all.GPUs[1].Leases, on(fmt.Sprintf("well-%d", i), fmt.Sprintf("plate%d", i), "dora", 100, 0, 0))
	}
	return all
}

func TestHoldersOfADevice(t *testing.T) {
	got := holdings(heldStatus().GPUs[1].Leases)
	if len(got) != mostHolders || got[mostHolders-1] != (holding{"5 others", 500, 0, 0, 5, 0}) {
		t.Errorf("the holders are %+v", got)
	}
	got = holdings(heldStatus().GPUs[0].Leases)
	if len(got) != 3 || got[1] != (holding{"embedder (anna)", 8192, 3000, 0, 2, 0}) || got[2] != (holding{"sleeper (carol)", 0, 4, 0, 1, 1}) {
		t.Errorf("the holders are %+v", got)
	}
}
