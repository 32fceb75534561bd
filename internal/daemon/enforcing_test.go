package daemon

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/desk/oversight"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/cgroup/enclosure"
)

// A launcher is told that nobody has looked whether memory is cleared.
func TestClearedByIsInTheAnswer(t *testing.T) {
	p := newPlace(t, "sim:1")
	c, stop := p.start(t)
	defer func() { c.Close(); _ = stop() }()
	e, err := c.Explain(t.Context(), api.LeaseRequest{Memory: 1024, Enforce: "auto"})
	if err != nil || e.Grant == nil || e.Grant.Launch == nil || e.Grant.Launch.ClearedBy != "not checked" {
		t.Errorf("%+v, %v", e, err)
	}
}

// The daemon reads the file for the driver and the model of a device.
func TestClearedByReadsTheFile(t *testing.T) {
	d, log := openLogging(t)
	path := filepath.Join(d.settings.load().Config.Daemon.StateDir, proof.ResidueFile)
	h200 := []gpu.Device{{Driver: "580.1", Name: "NVIDIA H200"}}
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"version": 1, "proofs": [{"driver": "580.1", "device": "NVIDIA H200", "checked": "2026-11-15T19:00:00Z", "looked_bytes": 1024, "left_bytes": 0}]}`)
	if got := d.clearedBy(h200); got != "driver, checked 2026-11-15" {
		t.Errorf("with a proof: %q", got)
	}
	put(`{"version": 9}`)
	if got := d.clearedBy(h200); got != "not checked" || !strings.Contains(log.String(), "its version is 9") {
		t.Errorf("with a file of another version: %q, and the log says %s", got, log)
	}
}

// groupsOf returns the control groups with a tag.
func groupsOf(t *testing.T, tag string) (found []string) {
	t.Helper()
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasSuffix(path, "-"+tag) {
			found = append(found, path)
		}
		return nil // what cannot be read is not ours
	})
	return found
}

// A daemon finds the control groups that an earlier one left: it knows which
// lease has one, and removes those of leases that have ended, at once or when
// they end.
func TestControlGroupsAfterARestart(t *testing.T) {
	p := newPlace(t, "sim:1")
	tag := tagOf(p.flags["daemon.state_dir"])
	earlier := enclosure.New(tag)
	if err := earlier.Available(); err != nil {
		t.Skip(err)
	}
	c, stop := p.start(t)
	stands, err := c.Acquire(t.Context(), api.LeaseRequest{ID: "stands", Memory: 1024, Binding: "named"})
	if err != nil || stands.IsolatedBy != "" {
		t.Fatalf("%+v, %v", stands, err)
	}
	c.Close()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	end := map[uint64]func(){}
	for _, fence := range []uint64{stands.Fence, stands.Fence + 7} {
		program := exec.Command("cat") // until its input ends
		in, err := program.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		end[fence] = sync.OnceFunc(func() { _ = in.Close(); _ = program.Wait() })
		t.Cleanup(end[fence])
		id, err := process.Proc().Identify(program.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := earlier.Enclose(id, fence, nil); err != nil {
			t.Skip(err)
		}
	}
	if found := groupsOf(t, tag); len(found) != 2 {
		t.Skipf("control groups are not in /sys/fs/cgroup: %q", found)
	}
	end[stands.Fence+7]()

	c, _ = p.start(t)
	for isolated := ""; isolated != "cgroup"; {
		l, err := c.Lease(t.Context(), "stands")
		if err != nil {
			t.Fatal(err)
		}
		isolated = l.IsolatedBy
	}
	for len(groupsOf(t, tag)) != 1 {
	}
	if all, err := c.Leases(t.Context()); err != nil || all.Leases[0].IsolatedBy != "cgroup" {
		t.Errorf("%+v, %v", all, err)
	}
	end[stands.Fence]()
	if _, err := c.Release(t.Context(), "stands", 0); err != nil {
		t.Fatal(err)
	}
	for len(groupsOf(t, tag)) != 0 {
	}
}

// Daemons with different state folders leave the control groups of each other
// alone.
func TestTagsOfControlGroups(t *testing.T) {
	if one, two := tagOf("/var/lib/berth"), tagOf("/tmp/berth"); one == two || len(one) != 8 || one != tagOf("/var/lib/../lib/berth") {
		t.Errorf("tags are %s and %s", one, two)
	}
}

// People read the index of a device, and the UUID only of one that nobody has seen.
func TestMPSDied(t *testing.T) {
	d := newPlace(t, "sim:1").open(t, t.Context())
	for uuid, label := range map[string]string{"SIM-h200-0": "GPU 0", "GPU-b": "GPU-b"} {
		e := oversight.MPSDied(d.label(uuid), uuid, time.Now())
		if e.GPU != uuid || !strings.HasPrefix(e.Text, "An MPS daemon on "+label+" has ended") {
			t.Errorf("%s: told %+v", uuid, e)
		}
	}
}
