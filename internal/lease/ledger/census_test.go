package ledger

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
)

// A process whose environment cannot be read holds up neither its own device nor another
// one.
func TestSilentProcess(t *testing.T) {
	root := t.TempDir()
	const silent, other = 7, 8
	for _, pid := range []int{silent, other} {
		folder := filepath.Join(root, strconv.Itoa(pid))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"stat":   strconv.Itoa(pid) + " (train) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1000 0 0\n",
			"status": "Uid:\t7\t7\t7\t7\n", "comm": "train\n", "environ": "BERTH_LEASE=a\x00BERTH_FENCE=5\x00",
		} {
			if pid == silent && name == "environ" {
				if err := unix.Mkfifo(filepath.Join(folder, name), 0o600); err != nil { // to open it waits for a writer
					t.Skip(err)
				}
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() { _ = os.WriteFile(filepath.Join(root, strconv.Itoa(silent), "environ"), nil, 0o600) })
	c := census{Table: process.At(root)}
	now := time.Now()
	first := make(chan []*usedBy)
	go func() {
		used, _ := c.used([]gpu.Process{{PID: silent}}, now)
		first <- used
	}()
	if used, _ := c.used([]gpu.Process{{PID: other}}, now); len(used) != 1 || used[0].Origin.Lease != "a" {
		t.Errorf("on the other device are %+v", used)
	}
	if used := <-first; len(used) != 1 || used[0].Origin.Lease != "" || !used[0].UID.Known() {
		t.Errorf("on its device are %+v", used)
	}
}

// A process that cannot be looked at now is told apart from one that has ended.
func TestProcessThatCannotBeRead(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "7", "stat"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := census{Table: process.At(root)}
	if used, unread := c.used([]gpu.Process{{PID: 7}, {PID: 8}}, time.Now()); len(used) != 0 || !slices.Equal(unread, []int{7}) {
		t.Errorf("used %v, cannot be read %v", used, unread)
	}
}

func BenchmarkFacts(b *testing.B) {
	c := census{Table: process.Proc()}
	id, err := c.Identify(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if f := c.Facts(id); !f.UID.Known() {
			b.Fatal(f)
		}
	}
}
