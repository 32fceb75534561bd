package top

import (
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/tui"
	"github.com/berth-gpu/berth/internal/process"
)

// programs looks at processes of this machine: their commands, and what they take of its
// processors and memory. The daemon says which processes there are and how they are
// called; one of this machine with the same number and another name is another process,
// which the daemon sees in a namespace of its own.
type programs struct {
	from process.Table

	mu     sync.Mutex // guards what follows
	wanted map[int]string
	before map[int]spent
}

// spent is what a process had taken at a time.
type spent struct {
	process.Spent
	at time.Time
}

// watch says which processes to look at, by their numbers, with their names.
func (p *programs) watch(list map[int]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = list
}

// look returns what the processes take now. How much they compute is known from the
// second look on.
func (p *programs) look(now time.Time) map[int]tui.Program {
	p.mu.Lock()
	wanted, before := p.wanted, p.before
	p.mu.Unlock()
	found, after := map[int]tui.Program{}, map[int]spent{}
	for pid, name := range wanted {
		took, err := p.from.Spent(pid)
		command := p.from.Said(took.ID).Command()
		if err != nil || name != p.from.Name(pid) || len(command) == 0 {
			continue // it has ended, is simulated, or is another one
		}
		one := tui.Program{Command: strings.Join(command, " "), Host: gpu.Some(took.Memory)}
		if last, seen := before[pid]; seen && last.ID == took.ID && now.After(last.at) {
			one.CPU = gpu.Some(gpu.Percent(100 * float64(took.CPU-last.CPU) / float64(now.Sub(last.at))))
		}
		found[pid], after[pid] = one, spent{took, now}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = after
	return found
}
