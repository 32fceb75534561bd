package process

import (
	"os"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Spent is what a process has taken of the processors, and what it has of the memory of
// the machine.
type Spent struct {
	ID     ID
	CPU    time.Duration // since its start, by all its threads
	Memory gpu.MiB       // resident
}

// Spent returns what a process has taken of the machine. Everybody may know that.
func (t Table) Spent(pid int) (Spent, error) {
	s, err := t.stat(pid)
	if err != nil {
		return Spent{}, err
	}
	return Spent{
		ID: ID{PID: pid, Start: s.start}, CPU: time.Duration(s.cpu) * (time.Second / userHz),
		Memory: gpu.MiB(s.resident * uint64(os.Getpagesize()) >> 20),
	}, nil
}
