package throttle

import (
	"fmt"
	"math"
	"sync"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/lease"
)

// pacing holds leases to shares. A lease over several devices is held to the
// lowest of their shares.
type pacing struct {
	pacer Pacer // nil if nothing holds leases back

	mu     sync.Mutex // guards what follows, and is held while the pacer is asked
	leases map[uint64]*paced
	served map[string]map[uint64]float64 // by device, and by lease: the share of its service
}

// servedLease is a lease whose service has a share of its devices.
type servedLease struct {
	key     lease.Key
	service string
	share   float64
}

// serve holds the leases on a device to the shares of their services, and lets other
// leases there go. It asks once for each share: the pacer reports what it refuses.
func (p *pacing) serve(uuid string, wanted map[uint64]servedLease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pacer == nil {
		return
	}
	held := p.served[uuid]
	for fence := range held {
		if _, still := wanted[fence]; !still {
			delete(held, fence)
			p.pacer.Let(fence, gpu.By{}, pace.ByService)
		}
	}
	for fence, l := range wanted {
		if held[fence] == l.share {
			continue
		}
		if held == nil {
			held = map[uint64]float64{}
			p.served[uuid] = held
		}
		held[fence] = l.share
		_ = p.pacer.Hold(pace.Hold{Key: l.key, Fence: fence, Share: l.share, Source: pace.ByService, Why: fmt.Sprintf("services.%s.compute is %g", l.service, math.Round(100*l.share)), GPU: uuid})
	}
}

// paced is a lease that some device holds back.
type paced struct {
	shares map[string]float64 // by device
	share  float64            // share that the pacer was asked for
	held   bool               // the pacer accepted it
}

// hold holds the leases on a device to a share, and lets other leases there go.
func (p *pacing) hold(uuid string, fences map[uint64]lease.Key, share float64, why string, count func(string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pacer == nil {
		return
	}
	for fence, key := range fences {
		if share >= 1 {
			continue
		}
		l := p.leases[fence]
		if l == nil {
			l = &paced{shares: map[string]float64{}, share: 1}
			p.leases[fence] = l
		}
		l.shares[uuid] = share
		p.ask(fence, key, uuid, l, why, count)
	}
	for fence, l := range p.leases {
		key, there := fences[fence]
		if _, held := l.shares[uuid]; !held || there && share < 1 {
			continue
		}
		if delete(l.shares, uuid); len(l.shares) == 0 {
			delete(p.leases, fence)
			p.pacer.Let(fence, gpu.By{}, pace.ByThrottle)
			continue
		}
		if there {
			p.ask(fence, key, uuid, l, why, count)
		}
	}
}

// ask asks the pacer for the lowest share of a lease, if it has changed. The caller holds
// mu.
func (p *pacing) ask(fence uint64, key lease.Key, uuid string, l *paced, why string, count func(string)) {
	share := 1.0
	for _, s := range l.shares {
		share = min(share, s)
	}
	if share == l.share {
		return
	}
	l.share = share
	l.held = p.pacer.Hold(pace.Hold{Key: key, Fence: fence, Share: share, Source: pace.ByThrottle, Why: why, GPU: uuid}) == nil
	if l.held {
		count(paceStep)
	}
}

// count returns how many leases are held back on a device.
func (p *pacing) count(uuid string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, l := range p.leases {
		if _, there := l.shares[uuid]; there && l.held {
			n++
		}
	}
	return n
}

// end lets every lease go.
func (p *pacing) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for fence := range p.leases {
		p.pacer.Let(fence, gpu.By{}, pace.ByThrottle)
	}
	clear(p.leases)
	for _, held := range p.served {
		for fence := range held {
			p.pacer.Let(fence, gpu.By{}, pace.ByService)
		}
	}
	clear(p.served)
}
