package reclaim

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/text/words"
)

// shrink makes leases smaller whose programs never used all that they asked for.
func (c *climb) shrink(ctx context.Context) (done, left []api.RungStep) {
	mine, others := c.leases()
	left = othersLeft(others)
	parents := c.parents()
	for _, held := range mine {
		size := held.Parts[0].Memory
		if size == 0 {
			continue // it holds slots only
		}
		before := held.Total().Memory
		to, most, why := c.smaller(held, parents[held.Fence])
		if why != "" {
			left = append(left, step(held, before, before, "%s stays as large as it is: %s", held.ID, why))
			continue
		}
		after := to * gpu.MiB(len(held.Parts))
		text := fmt.Sprintf("%s instead of %s: its programs used %s at most", to.Beside(size, most), size.Beside(to, most), most.Beside(to, size))
		if c.DryRun {
			done = append(done, step(held, before, after, "%s would get %s", held.ID, text))
			continue
		}
		shrunk, err := c.Leases.Shrink(ctx, held.Key(), held.Fence, to)
		if err != nil {
			left = append(left, step(held, before, before, "%s stays as large as it is: %v", held.ID, err))
			continue
		}
		c.shrunk += takes(held) - takes(ledger.Held{Lease: shrunk, Measured: held.Measured})
		done = append(done, step(held, before, after, "%s has %s. It gets its size back when it asks for it", held.ID, text))
	}
	return done, left
}

// takes returns how much memory of its devices a lease keeps others from leasing.
func takes(held ledger.Held) (sum gpu.MiB) {
	for i, p := range held.Parts {
		sum += max(p.Memory, held.Measured[i].Or(0))
	}
	return sum
}

// smaller returns the size that a lease would have on each of its devices, and the most
// memory that its programs used on one. If the lease keeps its size, why says why.
func (c *climb) smaller(held ledger.Held, parent bool) (to, most gpu.MiB, why string) {
	service := c.services[held.Holder.Service]
	size := held.Parts[0].Memory
	most, samples := c.Peaks.Most(held.Fence)
	if e, known := c.Peaks.Find(peaks.Key{User: held.Holder.User, Name: cmp.Or(held.Holder.Name, held.Holder.Service)}); known {
		most = max(most, e.Peak()) // earlier runs of the same program count too
	}
	needed, least := peaks.WithMargin(max(most, measured(held))), service.MinMemory.Or(0)
	to = max(needed, least)
	age := time.Since(held.Granted)
	switch {
	case !held.Allows(lease.MayShrink):
		why = "it belongs to a container or a job of another manager, which does not allow it"
	case len(held.Scope) == 0 && held.Holder.Service == "":
		why = "it has no service that allows it"
	case len(held.Scope) == 0 && service.Shrinkable != "true":
		why = fmt.Sprintf("services.%s.shrinkable is not true", held.Holder.Service)
	case held.Pool:
		why = "it is a pool, and its memory is for leases that take from it"
	case parent || held.Parent != "":
		why = "it shares its memory with other leases"
	case held.Resizable() != nil:
		why = held.Resizable().Error()
	case age < c.set.Keep:
		why = fmt.Sprintf("it was granted %s ago, and keep_seconds is %s", words.Duration(age.Round(time.Second)), words.Duration(c.set.Keep))
	case samples == 0:
		why = "its programs have not used a device yet"
	case c.Peaks.Partial(held.Fence):
		why = "berth has not measured it since its grant: it stood when the daemon was started"
	case least >= size && needed < size:
		why = fmt.Sprintf("services.%s.min_memory_mb is %s; its programs used up to %s", held.Holder.Service, least.Beside(most), most.Beside(least))
	case to >= size:
		why = fmt.Sprintf("its programs used up to %s of its %s", most.Beside(size), size.Beside(most))
	}
	return to, most, why
}
