package drm

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// Client is one open file of a card, as /proc/PID/fdinfo describes it. Files that were
// inherited or passed on are the same client.
type Client struct {
	ID      uint64
	Driver  string
	PCI     string
	Memory  uint64 // bytes on the card
	Counted bool   // whether the driver says how much memory it has
	Engines map[string]Engine
}

// Engine is the work that a part of a card did for a client.
type Engine struct {
	Busy     uint64 // nanoseconds, or cycles if Total is not zero
	Total    uint64 // cycles that passed
	Capacity uint64 // number of such parts; 0 means one
}

// memoryKeys are the keys for memory on the card, best first: the resident memory, the
// older word for it, and the requested memory.
var memoryKeys = []string{"drm-resident-", "drm-memory-", "drm-total-"}

// ParseClient reads a file of fdinfo. It reports false for a file that does not belong to
// a card. It ignores unknown keys and malformed numbers.
func ParseClient(text []byte) (Client, bool) {
	c := Client{Engines: map[string]Engine{}}
	var memory [3]uint64
	var counted [3]bool
	named := false
	for line := range bytes.Lines(text) {
		rawKey, rawValue, ok := bytes.Cut(line, []byte(":"))
		if !ok || !bytes.HasPrefix(rawKey, []byte("drm-")) {
			continue
		}
		key, value := string(rawKey), string(bytes.TrimSpace(rawValue))
		switch key {
		case "drm-driver":
			c.Driver = value
			continue
		case "drm-pdev":
			c.PCI = strings.ToLower(value)
			continue
		case "drm-client-id":
			id, err := strconv.ParseUint(value, 10, 64)
			c.ID, named = id, err == nil
			continue
		}
		for i, prefix := range memoryKeys {
			if region, is := strings.CutPrefix(key, prefix); is && onCard(region) {
				if bytes, ok := parseBytes(value); ok {
					memory[i], counted[i] = addUp(memory[i], bytes), true
				}
			}
		}
		c.engine(key, value)
	}
	for i := range memoryKeys {
		if counted[i] {
			c.Memory, c.Counted = memory[i], true
			break
		}
	}
	return c, c.Driver != "" && named
}

// onCard reports whether a region of memory is on the card: amdgpu calls it vram, i915
// local0 and xe vram0.
func onCard(region string) bool {
	return region == "vram" || numbered(region, "vram") || numbered(region, "local")
}

func addUp(a, b uint64) uint64 {
	if a > math.MaxInt64-min(b, math.MaxInt64) {
		return math.MaxInt64
	}
	return a + b
}

// parseBytes reads a size such as "12 KiB"; without a unit it is bytes.
func parseBytes(value string) (uint64, bool) {
	number, unit, _ := strings.Cut(value, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	shift := map[string]int{"": 0, "KiB": 10, "MiB": 20, "GiB": 30}
	by, known := shift[strings.TrimSpace(unit)]
	if err != nil || !known || n > math.MaxInt64>>by {
		return 0, false
	}
	return n << by, true
}

// engine reads a line about an engine. Nanoseconds are drm-engine-NAME, cycles are
// drm-cycles-NAME and drm-total-cycles-NAME.
func (c *Client) engine(key, value string) {
	set := func(name string, into func(*Engine, uint64)) {
		number, _, _ := strings.Cut(value, " ")
		if n, err := strconv.ParseUint(number, 10, 64); err == nil && name != "" {
			e := c.Engines[name]
			into(&e, n)
			c.Engines[name] = e
		}
	}
	if name, is := strings.CutPrefix(key, "drm-engine-capacity-"); is {
		set(name, func(e *Engine, n uint64) { e.Capacity = n })
	} else if name, is := strings.CutPrefix(key, "drm-engine-"); is {
		set(name, func(e *Engine, n uint64) {
			if e.Total == 0 { // cycles are better
				e.Busy = n
			}
		})
	} else if name, is := strings.CutPrefix(key, "drm-total-cycles-"); is {
		set(name, func(e *Engine, n uint64) { e.Total = n })
	} else if name, is := strings.CutPrefix(key, "drm-cycles-"); is {
		set(name, func(e *Engine, n uint64) { e.Busy = n })
	}
}

// Computes reports whether a client computes, or at least does not draw.
func (c *Client) Computes() bool {
	draws := false
	for name, e := range c.Engines {
		switch {
		case e.Busy == 0:
		case strings.HasPrefix(name, "comp") || name == "ccs":
			return true
		case name == "gfx" || name == "render" || name == "rcs":
			draws = true
		}
	}
	return !draws
}
