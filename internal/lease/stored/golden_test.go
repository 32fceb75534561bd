package stored_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// TestEntriesOfEarlierReleases holds the codec to the entries that are on
// people's disks: it reads each, and writes the same bytes again.
func TestEntriesOfEarlierReleases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.records")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no entries to read: %v", err)
	}
	seen := map[stored.Kind]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ids := map[uint64]string{} // of the leases that stand, by fence
		owners := map[uint64]int{}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			r, err := stored.Decode([]byte(line))
			if err != nil {
				t.Fatalf("%s: %v in %s", file, err, line)
			}
			if got := string(lease.AppendEntry(nil, &r)); got != line {
				t.Errorf("%s: read\n%s\nand wrote\n%s", file, line, got)
			}
			want := stored.New(r.Kind)
			if r.Lease != nil {
				want.SetLease(r.Lease)
			}
			switch r.Kind {
			case stored.Grant:
				for fence, id := range ids {
					if id == r.ID {
						want.Share()
					}
					if id == r.ID && owners[fence] == r.Lease.UID {
						want.ShareOwn()
					}
				}
				ids[r.Fence], owners[r.Fence] = r.ID, r.Lease.UID
			case stored.Release, stored.Expire, stored.Revoke:
				delete(ids, r.Fence)
			}
			if want.Version != r.Version {
				t.Errorf("%s: a %s has version %d, and would get %d now", file, string(r.Kind), r.Version, want.Version)
			}
			seen[r.Kind] = true
		}
	}
	for _, kind := range []stored.Kind{stored.Grant, stored.Renew, stored.Bind, stored.Release, stored.Expire, stored.Revoke, stored.Park, stored.Resume, stored.Scope, stored.Detach, stored.Resize, stored.Fence, stored.Audit} {
		if !seen[kind] {
			t.Errorf("no %s is among them", string(kind))
		}
	}
}
