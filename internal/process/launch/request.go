package launch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Request is a request of a user to berth exec.
type Request struct {
	api.LeaseRequest
	Compute int    // percent of the multiprocessors; 0 means all
	Called  string // what an id that the daemon makes begins with; Finish sets it
}

// Flag is one flag of berth exec.
type Flag struct {
	Name  string
	Value string // the value after it, for the help page
	Usage string
	Set   func(*Request, string) error
	Bare  bool // the flag takes no value
}

// Flags lists the flags that describe a request. A policy must be one of policies.
func Flags(policies []string) []Flag {
	return []Flag{
		{Name: "gpus", Value: "N", Usage: "how many devices (default 1)", Set: setGPUs},
		{Name: "slots", Value: "N", Usage: "slots on each of them (default 1)", Set: setSlots},
		{Name: "memory", Value: "SIZE", Usage: "memory on each of them, as in 8GiB, or all that\nthe largest has, beside leases without memory\n(default: what was learned of this name)", Set: setMemory},
		{Name: "exclusive", Bare: true, Usage: "each of them alone: nobody else has a lease\nthere, and its memory is what is free (default\nwithout --memory, --slots and a learned size;\nsee gpu.plain)", Set: setExclusive},
		{Name: "compute", Value: "PERCENT", Usage: "share of the multiprocessors, as in 30%; needs MPS", Set: setCompute},
		{Name: "gpu", Value: "GPU", Usage: "this device and no other (index or UUID)", Set: text(func(r *Request) *string { return (*string)(&r.GPU) })},
		{Name: "prefer", Value: "GPU", Usage: "this device if it has room (index or UUID)", Set: text(func(r *Request) *string { return (*string)(&r.Prefer) })},
		{Name: "pool", Value: "NAME", Usage: "take the memory from this pool of yours, at once\n(see berth allocate --pool)", Set: text(func(r *Request) *string { return &r.FromPool })},
		{Name: "where", Value: "RULE", Usage: "what the device must be like, as in 'name~H200'", Set: text(func(r *Request) *string { return &r.Where })},
		{Name: "policy", Value: "POLICY", Usage: "how to choose among devices", Set: oneOf(func(r *Request) *string { return &r.Policy }, policies...)},
		{Name: "id", Value: "ID", Usage: "id of the lease (default: the name and a number)", Set: text(func(r *Request) *string { return &r.ID })},
		{Name: "name", Value: "NAME", Usage: "what it is remembered under (default: the program)", Set: text(func(r *Request) *string { return &r.Name })},
		{Name: "service", Value: "SERVICE", Usage: "the service it is for, whose limits hold", Set: text(func(r *Request) *string { return &r.Service })},
		{Name: "priority", Value: "N", Usage: "higher goes first among those who wait", Set: setPriority},
		{Name: "timeout", Value: "TIME", Usage: "how long to wait for room, as in 10m; 0: not at all\n(default: as long as it takes, 30 days at most)", Set: setTimeout},
		{Name: "time", Value: "TIME", Usage: "end the program and the lease after this time, as in\n2h (default: your longest_time_seconds, or no limit)", Set: setTime},
		{Name: "enforce", Value: "RUNG", Usage: "what holds it to its memory: auto, mps, framework,\nwatchdog or none", Set: oneOf(func(r *Request) *string { return &r.Enforce }, "auto", MPS, Framework, Watchdog, None)},
		{Name: "isolation", Value: "WAY", Usage: "what keeps it from other GPUs: env or cgroup\n(default: gpu.isolation, env unless set)", Set: oneOf(func(r *Request) *string { return &r.Isolation }, ByEnv, ByCgroup)},
		{Name: "parkable", Bare: true, Usage: "berth may park it while others wait for its GPU;\nwith =unshared also several processes, which share\nno GPU memory", Set: setParkable},
	}
}

// Finish sets what the user left out.
func (r *Request) Finish(command []string) error {
	r.Binding = "process"
	// Everybody can read an id, so it names the program only if the user has named it.
	r.Called = cmp.Or(strings.TrimSpace(clipName(r.Name)), "exec")
	r.Name = cmp.Or(r.Name, NameOf(command))
	r.Learned = r.Memory == 0 && !r.AllMemory && !r.Exclusive
	if !r.Timeout.Known() {
		r.Timeout = gpu.Some(Forever.Seconds())
	}
	r.Enforce = cmp.Or(r.Enforce, "auto")
	if r.Compute > 0 {
		if r.Enforce != "auto" && r.Enforce != MPS {
			return fmt.Errorf("--compute is what MPS limits: it does not go with --enforce %s", r.Enforce)
		}
		r.Enforce = MPS
	}
	return nil
}

// Around returns the id and the fence of the lease that the environment of a plain
// request names: of the lease in which the command runs, if that still stands. It reports
// false if there is none, or if the request says how much it wants, or where.
func (r *Request) Around(environ []string) (id string, fence uint64, nested bool) {
	says := r.Memory != 0 || r.AllMemory || r.Exclusive || r.Slots.Known() || r.GPUs > 1 || r.GPU != "" || r.Where != "" || r.Parent != "" || r.FromPool != "" || r.Compute > 0
	e := newEditor(environ)
	id, named := e.get("BERTH_LEASE")
	number, _ := e.get("BERTH_FENCE")
	fence, err := strconv.ParseUint(number, 10, 64)
	return id, fence, !says && named && id != "" && err == nil
}

// Within makes a plain request one for a child of a lease, which uses what that has.
func (r *Request) Within(parent string) { r.Parent, r.Slots = parent, gpu.Some(0) }

func text(of func(*Request) *string) func(*Request, string) error {
	return func(r *Request, value string) error {
		*of(r) = value
		return nil
	}
}

func oneOf(of func(*Request) *string, choices ...string) func(*Request, string) error {
	return func(r *Request, value string) error {
		if !slices.Contains(choices, value) {
			return fmt.Errorf("there is no %q: %s", value, words.Suggest(value, choices, "use "+strings.Join(choices, ", ")))
		}
		*of(r) = value
		return nil
	}
}

func whole(value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q is not a number from %d to %d", value, least, most)
	}
	return n, nil
}

func setGPUs(r *Request, value string) (err error) {
	r.GPUs, err = whole(value, 1, 1024)
	return err
}

func setSlots(r *Request, value string) error {
	n, err := whole(value, 0, 1<<16)
	r.Slots = gpu.Some(n)
	return err
}

func setPriority(r *Request, value string) error {
	n, err := whole(value, -1_000_000, 1_000_000)
	r.Priority = gpu.Some(n)
	return err
}

func setMemory(r *Request, value string) (err error) {
	if err := words.NoUnit(value, "GiB", "MiB"); err != nil {
		return err
	}
	if r.AllMemory = value == "all"; r.AllMemory {
		r.Memory = 0
		return nil
	}
	r.Memory, err = gpu.ParseMiB(value)
	return err
}

func setExclusive(r *Request, value string) (err error) {
	if r.Exclusive, err = strconv.ParseBool(value); err != nil {
		return fmt.Errorf("there is no %q: use true, false", value)
	}
	return nil
}

func setCompute(r *Request, value string) (err error) {
	r.Compute, err = whole(strings.TrimSuffix(value, "%"), 1, 100)
	return err
}

func setParkable(r *Request, value string) (err error) {
	r.Parkable, r.Unshared, err = ParseParkable(value)
	return err
}

// ParseParkable reads whether berth may park a lease, and whether its owner says that
// its processes share no GPU memory.
func ParseParkable(value string) (parkable, unshared bool, err error) {
	if value == "unshared" {
		return true, true, nil
	}
	if parkable, err = strconv.ParseBool(value); err != nil {
		return false, false, fmt.Errorf("there is no %q: use true, false, unshared", value)
	}
	return parkable, false, nil
}

// Forever is how long a request waits that waits as long as it takes: the longest wait that
// the daemon grants.
const Forever = 30 * 24 * time.Hour

func setTimeout(r *Request, value string) error {
	length, err := parseLength(value)
	if err == nil {
		r.Timeout = gpu.Some(min(length, Forever).Seconds())
	}
	return err
}

func setTime(r *Request, value string) error {
	length, err := parseLength(value)
	switch {
	case err != nil:
		return err
	case length < time.Second:
		return fmt.Errorf("a time limit must be 1 s or more, not %q: leave --time out for none", value)
	case length == words.Forever:
		r.TimeLimit = gpu.Opt[float64]{}
	default:
		r.TimeLimit = gpu.Some(length.Seconds())
	}
	return nil
}

// parseLength reads 90s, 10m, 7d, forever or 0.
func parseLength(value string) (time.Duration, error) {
	if value == "0" {
		return 0, nil
	}
	if err := words.NoUnit(value, "s", "m", "h"); err != nil {
		return 0, err
	}
	length, err := words.ParseLength(value)
	if err == nil && length < 0 {
		err = errors.New("it must not be negative")
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a length of time: %w", value, err)
	}
	return length, nil
}
