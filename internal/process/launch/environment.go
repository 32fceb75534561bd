package launch

import (
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/gpu/maker"
)

// The rungs of the ladder, strongest first, as enforced_by names them.
const (
	MPS       = "mps"       // the driver refuses, whatever the program does
	Framework = "framework" // CuPy, JAX and PyTorch refuse by themselves
	Watchdog  = "watchdog"  // nothing refuses; use is measured
	None      = "none"
)

// Ladder holds what berth needs to enforce the memory of a lease. The lease
// names the rung.
type Ladder struct {
	Context gpu.MiB // part of the lease that a CUDA context takes; libraries do not count it
	MPS     string  // pipe directory of the MPS daemon, for that rung
	Compute int     // percent of the multiprocessors, for that rung; 0 means all
	Torch   string  // version of PyTorch that the program would find; empty if not known
	Socket  string  // socket of the daemon; empty if the program finds it anyway

	Caps []string // the libraries that the framework rung limits, of Libraries; empty means all of them

	Isolation string // what keeps the program from other devices, ByEnv or ByCgroup; empty means ByEnv
	ClearedBy string // who clears memory between two programs, and when that was checked; empty if the daemon does not say
}

// Environment returns the environment of a program under a lease: environ, changed so
// that the program sees only the devices of the lease, numbered from 0, and so that the
// rung of the lease enforces its memory. devices are those of the lease.
func Environment(l api.Lease, devices []gpu.Device, ladder Ladder, environ []string) ([]string, Receipt) {
	e := newEditor(environ)
	memory := memoryOf(l)
	inside := l.Parent != "" && memory == 0 // it uses the memory of the lease around it, and keeps to its limits
	if _, nested := e.get("BERTH_LEASE"); nested && !inside {
		e.stripCaps() // they belong to the lease around this one
	}
	before, _ := e.get("BERTH_MEMORY_MB")
	e.identify(l, ladder)
	receipt := Receipt{EnforcedBy: l.EnforcedBy}
	e.isolate(devices, &receipt)
	switch {
	case inside:
		if before != "" {
			e.set("BERTH_MEMORY_MB", before)
		}
		receipt.miss("it uses the memory of %s, and keeps the limits that its environment has of it", l.Parent)
	case l.EnforcedBy == MPS:
		e.capByMPS(memory, ladder, &receipt)
	case l.EnforcedBy == Framework && memory > 0:
		e.capByFramework(devices, memory, ladder, &receipt)
	case l.EnforcedBy == Watchdog:
		receipt.hold("what its processes use is measured, and held against %s", memory)
		receipt.miss("nothing refuses memory: more than that is noticed afterwards, and can hurt others until then")
	case memory == 0:
		receipt.miss("it is a lease of slots, without memory: nothing to be held to")
	default:
		receipt.miss("nothing holds it to %s", memory)
	}
	receipt.summarize(l, memory, ladder.Context)
	if uneven(l) {
		receipt.miss("the lease has more memory on some of its devices than on others: what its program is told is the least of them, %s", memory)
	}
	e.separate(ladder, &receipt)
	return e.list, receipt
}

// Outside returns an environment without what a launch set in it, if one did, for a program
// that does not run under that lease: it would take those limits for the user's own.
func Outside(environ []string) []string {
	e := newEditor(environ)
	if _, inside := e.get("BERTH_LEASE"); !inside {
		return e.list
	}
	e.stripCaps()
	for _, name := range []string{"BERTH_LEASE", "BERTH_FENCE", "BERTH_MEMORY_MB", "BERTH_CONTEXT_MB", "BERTH_GPUS", "BERTH_PARKABLE", isolationVariable} {
		e.unset(name)
	}
	for _, m := range maker.All() {
		for _, v := range m.Shows {
			e.unset(v.Name)
		}
	}
	return e.list
}

// memoryOf returns the memory of a lease on each of its devices. If the amounts differ,
// it returns the least, so that no device gives more than was leased. Devices on which
// the lease has only slots do not count.
func memoryOf(l api.Lease) gpu.MiB {
	least := gpu.MiB(0)
	for _, p := range l.Parts {
		if p.Memory > 0 && (least == 0 || p.Memory < least) {
			least = p.Memory
		}
	}
	return least
}

// uneven reports whether a lease has more memory on one device than on another.
func uneven(l api.Lease) bool {
	return slices.ContainsFunc(l.Parts, func(p api.LeasePart) bool { return p.Memory != l.Parts[0].Memory })
}

// identify tells the program under which lease it runs.
func (e *editor) identify(l api.Lease, ladder Ladder) {
	e.set("BERTH_LEASE", l.ID)
	e.set("BERTH_FENCE", strconv.FormatUint(l.Fence, 10))
	e.set("BERTH_MEMORY_MB", strconv.FormatInt(int64(memoryOf(l)), 10))
	e.set("BERTH_CONTEXT_MB", strconv.FormatInt(int64(ladder.Context), 10))
	e.set("BERTH_GPUS", strings.Join(gpusOf(l), ","))
	e.unset("BERTH_PARKABLE") // it belongs to the lease around this one
	if l.Parkable {
		e.set("BERTH_PARKABLE", "1") // only programs that may be parked ask for their device back
	}
	if ladder.Socket != "" {
		e.set("BERTH_SOCKET", ladder.Socket)
	}
}

func gpusOf(l api.Lease) []string {
	var list []string
	for _, p := range l.Parts {
		list = append(list, p.GPU)
	}
	return list
}

// Changes returns the differences between two environments: NAME=VALUE for a new or
// different variable, NAME for one that is gone. It ignores entries without a =, which
// are not variables.
func Changes(from, to []string) []string {
	before, after := newEditor(from), newEditor(to)
	var changes []string
	for i, entry := range after.list {
		name, value, _ := strings.Cut(entry, "=")
		if old, had := before.get(name); after.index(name) == i && (!had || old != value) {
			changes = append(changes, entry)
		}
	}
	for _, entry := range before.list {
		name, _, is := strings.Cut(entry, "=")
		if _, has := after.get(name); is && !has {
			changes = append(changes, name)
		}
	}
	return changes
}

// editor changes an environment. If a name occurs twice, the first one counts, as for
// getenv.
type editor struct{ list []string }

func newEditor(environ []string) *editor { return &editor{slices.Clone(environ)} }

func (e *editor) index(name string) int {
	return slices.IndexFunc(e.list, func(entry string) bool {
		rest, ok := strings.CutPrefix(entry, name)
		return ok && strings.HasPrefix(rest, "=")
	})
}

func (e *editor) get(name string) (string, bool) {
	if i := e.index(name); i >= 0 {
		return e.list[i][len(name)+1:], true
	}
	return "", false
}

func (e *editor) set(name, value string) {
	i := e.index(name)
	e.unset(name)
	if i < 0 {
		i = len(e.list)
	}
	e.list = slices.Insert(e.list, i, name+"="+value)
}

// setDefault sets a variable unless the user has set it.
func (e *editor) setDefault(name, value string) {
	if _, chosen := e.get(name); !chosen {
		e.set(name, value)
	}
}

func (e *editor) unset(name string) {
	for i := e.index(name); i >= 0; i = e.index(name) {
		e.list = slices.Delete(e.list, i, i+1)
	}
}

// PyTorch's allocator reads its options from one variable, separated by commas:
// "expandable_segments:True,roundup_power2_divisions:[256:1,512:2]". A list in brackets
// may hold commas itself.

// withShare returns a setting with the share of the device, or with the user's own share
// if that is smaller.
func withShare(conf string, share float64) string {
	for _, option := range options(conf) {
		if own, ok := valueOf(option, torchOption); ok {
			if v, err := strconv.ParseFloat(own, 64); err == nil && v > 0 && v < share {
				share = v
			}
		}
	}
	option := torchOption + ":" + formatShare(share)
	if rest := withoutOption(conf, torchOption); rest != "" {
		return rest + "," + option
	}
	return option
}

// withoutOption returns conf without one option, and with the others unchanged.
func withoutOption(conf, name string) string {
	var kept []string
	for _, option := range options(conf) {
		if _, is := valueOf(option, name); !is {
			kept = append(kept, option)
		}
	}
	return strings.Join(kept, ",")
}

func valueOf(option, name string) (string, bool) {
	key, value, ok := strings.Cut(option, ":")
	return strings.TrimSpace(value), ok && strings.TrimSpace(key) == name
}

// options splits a setting at the commas outside brackets.
func options(conf string) []string {
	var list []string
	depth, from := 0, 0
	for i := 0; i <= len(conf); i++ {
		switch {
		case i < len(conf) && conf[i] == '[':
			depth++
		case i < len(conf) && conf[i] == ']':
			depth--
		case i == len(conf) || conf[i] == ',' && depth <= 0:
			if option := strings.TrimSpace(conf[from:i]); option != "" {
				list = append(list, option)
			}
			from = i + 1
		}
	}
	return list
}
