package reclaim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// reached counts a rung, and publishes what was done there. It does neither for a dry run. It publishes a
// rung that berth began by itself only if it did something.
func (c *climb) reached(one api.Rung, doing string) {
	if c.DryRun {
		return
	}
	c.mu.Lock()
	c.counts.Freed[one.Name] += one.Freed
	c.mu.Unlock()
	if c.by.Door == access.Itself && len(one.Done) == 0 {
		return
	}
	text := fmt.Sprintf("Optimization, %s: %s, %d done, %d left alone", doing, freed(one.Name, one.Freed), len(one.Done), len(one.Left))
	c.tell(text, map[string]any{"rung": one.Name, "freed_mb": int64(one.Freed), "done": len(one.Done), "left": len(one.Left), "took_seconds": one.Took})
}

// over counts an optimization, and publishes its end. It does neither for a dry run,
// which concerns only its caller: anybody can ask for thousands.
func (c *climb) over(o api.Optimization) {
	if c.DryRun {
		return
	}
	var sum gpu.MiB
	done, left := 0, 0
	for _, rung := range o.Rungs {
		if rung.Name != Shrink {
			sum += rung.Freed
		}
		done, left = done+len(rung.Done), left+len(rung.Left)
	}
	c.mu.Lock()
	c.counts.Runs++
	c.mu.Unlock()
	if c.by.Door == access.Itself && done == 0 {
		return
	}
	text := fmt.Sprintf("An optimization took %s and freed %s", words.Duration(time.Since(c.began)), sum)
	c.tell(text, map[string]any{"freed_mb": int64(sum), "done": done, "left": left, "took_seconds": o.Took})
}

func (c *climb) tell(text string, data map[string]any) {
	data["run"] = strconv.FormatInt(c.began.UnixNano(), 36)
	c.Publish(gpu.Event{Time: time.Now(), Code: gpu.EventOptimized, Severity: gpu.Note, By: lease.ByOf(c.by), Text: text, Data: data})
}

func freed(rung string, amount gpu.MiB) string {
	if rung == Shrink {
		return amount.String() + " more can be leased"
	}
	return amount.String() + " freed"
}
