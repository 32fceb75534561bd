package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/words"
)

// indexes are what people call the devices, by UUID.
type indexes map[string]int

func (a *app) indexes(ctx context.Context, c *client.Client) (indexes, error) {
	all, err := c.StatusAll(ctx)
	gpus := indexes{}
	for _, d := range all.GPUs {
		gpus[d.Device.UUID] = d.Device.Index
	}
	return gpus, err
}

// short is the index, or the UUID of a device that is not there any more.
func (x indexes) short(uuid string) string {
	if index, known := x[uuid]; known {
		return strconv.Itoa(index)
	}
	return clean(uuid)
}

// cell is the index in a table, where a UUID would take half of it.
func (x indexes) cell(uuid string) cell {
	if _, known := x[uuid]; !known {
		return cell{"gone", red}
	}
	return cell{text: x.short(uuid)}
}

func (x indexes) of(uuid string) string {
	if _, known := x[uuid]; known {
		return "GPU " + x.short(uuid)
	}
	return x.short(uuid)
}

// had is what a lease takes, and where.
func (x indexes) had(l api.Lease) string {
	same := true
	for _, p := range l.Parts {
		same = same && p.Memory == l.Parts[0].Memory && p.Slots == l.Parts[0].Slots
	}
	where := make([]string, len(l.Parts))
	for i, p := range l.Parts {
		if where[i] = x.of(p.GPU); !same {
			where[i] = amount(p.Memory, p.Slots) + " on " + where[i]
		}
	}
	switch {
	case !same || len(l.Parts) == 0:
		return list(where)
	case len(l.Parts) == 1:
		return amount(l.Parts[0].Memory, l.Parts[0].Slots) + " on " + where[0]
	}
	return amount(l.Parts[0].Memory, l.Parts[0].Slots) + " on each of " + list(where)
}

// end says what ends a lease.
func end(l api.Lease, zone *time.Location) string {
	switch {
	case l.Expires != nil:
		return l.Expires.In(zone).Format(time.DateTime) + " unless it is renewed"
	case l.Binding == "process":
		if l.Holder.PID == 0 {
			return "its process ends" // another user's, which the daemon does not show
		}
		return fmt.Sprintf("process %d ends", l.Holder.PID)
	}
	return "it is released"
}

// amount is memory and slots in words.
func amount(memory gpu.MiB, slots int) string {
	switch {
	case memory == 0:
		return plural(slots, "slot")
	case slots == 0:
		return memory.String()
	}
	return memory.String() + " and " + plural(slots, "slot")
}

// who is a holder in two words: what it is, and whose.
func who(h api.Holder) string {
	what, user := clean(cmp.Or(h.Service, h.Name)), clean(h.User)
	if what == "" || user == "" {
		return cmp.Or(what, user, "-")
	}
	return what + " (" + user + ")"
}

// list puts commas between words, and an "and" before the last.
func list(all []string) string { return words.And(all) }

// showLease prints a lease that was just granted or changed.
func (a *app) showLease(l api.Lease, gpus indexes) error {
	if a.json {
		return a.printJSON(l)
	}
	to := a.screen()
	said := fmt.Sprintf("%s holds %s, until %s (fence %d).", clean(l.ID), gpus.had(l), end(l, to.now.Location()), l.Fence)
	lines := []string{to.hang(plain, "", said)}
	if l.Note != "" {
		lines = append(lines, to.hang(yellow, "! ", clean(l.Note)))
	}
	return a.print(lines...)
}
