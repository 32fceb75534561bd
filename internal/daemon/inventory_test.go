package daemon

import (
	"testing"

	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/park/hugepages"
	"github.com/berth-gpu/berth/internal/enforce/park/mover"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/job/owner"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// The table of the state folder has every file whose name another package keeps, and the
// versions of the entries of journals.
func TestTheInventoryIsComplete(t *testing.T) {
	for _, name := range []string{proof.ResidueFile, pace.FileName, mover.FileName, hugepages.FileName, inventory.Services + "/" + owner.FileName} {
		if i, known := inventory.Find(name); !known || i.Path != name || i.Kind != inventory.State {
			t.Errorf("%s is not in the table", name)
		}
	}
	for name, version := range map[string]int{inventory.Leases: stored.Version, inventory.Waiting: stored.WaitingVersion} {
		if i, _ := inventory.Find(name); i.Version != version {
			t.Errorf("%s has version %d in the table, and its entries have %d", name, i.Version, version)
		}
	}
	for _, name := range []string{inventory.Saved, inventory.Tokens, inventory.Jobs, inventory.Leases, inventory.Tokens + ".damaged-x"} {
		if !isPrivate(name) {
			t.Errorf("others may read %s", name)
		}
	}
	for _, name := range []string{inventory.Audit, inventory.MPS} {
		if isPrivate(name) {
			t.Errorf("those who may cannot reach %s", name)
		}
	}
}
