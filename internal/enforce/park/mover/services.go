package mover

import (
	"time"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// Services owns the programs that berth runs for services. It brings them when somebody
// asks for them, and sends them away: it parks, puts to sleep or stops them.
type Services interface {
	// Use returns how the program of a lease is used, and false if berth runs no program
	// for the lease. It must not block.
	Use(k lease.Key, fence uint64) (placement.ProgramUse, bool)
	// Away sends the program of a lease away, because wanter waits for its room. It
	// returns at once. From then on Use says that the program leaves, until it has left
	// or could not. Away may be called again meanwhile.
	Away(k lease.Key, fence uint64, wanter lease.Key, why string)
}

// Where the settings say nothing, others wait for an idle program that berth runs as long
// as some of its switches take, so that at most a fifth of the time is lost to switches,
// and never longer than waitForPrograms. Somebody waits for an answer then, and not for a
// lease.
const (
	waitForPrograms = 10 * time.Second
	waitPerSwitch   = 4
)

// Serve makes a Mover leave the programs of services to their owner. It is called once.
func (p *Mover) Serve(s Services) {
	p.mu.Lock()
	p.programs = s
	p.mu.Unlock()
	p.Nudge()
}

// services returns the owner of the programs of services, or nil if there is none.
func (p *Mover) services() Services {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.programs
}

// use returns how the program of a lease is used, and false if berth runs no program for
// the lease.
func (p *Mover) use(k lease.Key, fence uint64) (placement.ProgramUse, bool) {
	s := p.services()
	if s == nil {
		return placement.ProgramUse{}, false
	}
	return s.Use(k, fence)
}

// run fills in what is known of a lease whose program berth runs, and returns false if
// berth runs none. Its requests show whether it is idle, and to close it to requests is
// all the warning that it needs. It can leave without being parked, so it need not be
// parkable; one that is still coming stays until it has served those it comes for.
func (p *Mover) run(h *placement.Holding, stays bool) bool {
	use, runs := p.use(h.Key, h.Fence)
	if !runs {
		return false
	}
	h.Program, h.Parkable = true, !stays && !use.Since.IsZero()
	h.Since, h.Idle, h.Leaves, h.Barred = use.Since, use.Idle, use.Leaves, use.Barred
	h.Rules.Grace, h.Rules.IdleAfter = 0, 0
	if h.Rules.Wait == 0 {
		h.Rules.Wait = waitForPrograms
		if use.Switch > 0 {
			h.Rules.Wait = min(waitForPrograms, waitPerSwitch*use.Switch)
		}
	}
	return true
}
