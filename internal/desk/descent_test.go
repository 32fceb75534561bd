package desk

import (
	"os"
	"os/exec"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/process"
)

// A process shows the way to the holder of its lease. One that does not descend
// from the holder, and one that the caller may not see, show none.
func TestTraceDescent(t *testing.T) {
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); child.Wait() })

	self := os.Getpid()
	for name, c := range map[string]struct {
		holder, pid int
		want        []int
	}{
		"a child of the holder":       {self, child.Process.Pid, []int{self}},
		"the holder itself":           {self, self, nil},
		"the parent of the holder":    {child.Process.Pid, self, nil},
		"a process that is not shown": {self, 0, nil},
		"a process that has ended":    {self, 1 << 22, nil},
		"a lease without a process":   {0, child.Process.Pid, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := &Leases{processes: process.Proc()}
			l := api.Lease{Holder: api.Holder{PID: c.holder}, Processes: []api.Belonging{{PID: c.pid}}}
			d.TraceDescent(&l)
			got := l.Processes[0].Ancestors
			if len(got) != len(c.want) {
				t.Fatalf("ancestors are %v, want the pids %v", got, c.want)
			}
			for i, a := range got {
				if a.PID != c.want[i] || a.Name == "" {
					t.Errorf("ancestor %d is %+v, want pid %d with its name", i, a, c.want[i])
				}
			}
		})
	}
}
