package launch

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// Request is a request of a user to berth exec.
type Request struct {
	api.LeaseRequest
	Compute int    // percent of the multiprocessors; 0 means all
	Called  string // what an id that the daemon makes begins with; Finish sets it
}

// Flag is one flag of berth exec. The command line shows and reads flags; the daemon
// reads them too, for a launch that begins before Go does.
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
		{Name: "memory", Value: "SIZE", Usage: "memory on each of them, as in 8GiB (default: what was\nlearned of this name)", Set: setMemory},
		{Name: "compute", Value: "PERCENT", Usage: "share of the multiprocessors, as in 30%; needs MPS", Set: setCompute},
		{Name: "gpu", Value: "GPU", Usage: "this device and no other (index or UUID)", Set: text(func(r *Request) *string { return (*string)(&r.GPU) })},
		{Name: "prefer", Value: "GPU", Usage: "this device if it has room (index or UUID)", Set: text(func(r *Request) *string { return (*string)(&r.Prefer) })},
		{Name: "where", Value: "RULE", Usage: "what the device must be like, as in 'name~H200'", Set: text(func(r *Request) *string { return &r.Where })},
		{Name: "policy", Value: "POLICY", Usage: "how to choose among devices", Set: oneOf(func(r *Request) *string { return &r.Policy }, policies...)},
		{Name: "name", Value: "NAME", Usage: "what it is remembered under (default: the program)", Set: text(func(r *Request) *string { return &r.Name })},
		{Name: "service", Value: "SERVICE", Usage: "the service it is for, whose limits hold", Set: text(func(r *Request) *string { return &r.Service })},
		{Name: "priority", Value: "N", Usage: "higher goes first among those who wait", Set: setPriority},
		{Name: "timeout", Value: "TIME", Usage: "how long to wait for room, as in 10m; 0: not at all\n(default: allocation_timeout, 30s unless set)", Set: setTimeout},
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
	r.Learned = r.Memory == 0
	r.Enforce = cmp.Or(r.Enforce, "auto")
	if r.Compute > 0 {
		if r.Enforce != "auto" && r.Enforce != MPS {
			return fmt.Errorf("--compute is what MPS limits: it does not go with --enforce %s", r.Enforce)
		}
		r.Enforce = MPS
	}
	return nil
}

// ParsePlain reads flags that are written in full, --memory 8GiB or --memory=8GiB. It
// reports false for anything else: an abbreviation, a flag that does more than ask, a
// value that is refused.
func ParsePlain(args, policies []string) (Request, bool) {
	var r Request
	flags := Flags(policies)
	for i := 0; i < len(args); i++ {
		name, long := strings.CutPrefix(args[i], "--")
		name, value, joined := strings.Cut(name, "=")
		at := slices.IndexFunc(flags, func(f Flag) bool { return f.Name == name })
		switch {
		case joined:
		case at >= 0 && flags[at].Bare:
			value = "true"
		default:
			if i++; i == len(args) {
				return r, false
			}
			value = args[i]
		}
		switch {
		case long && name == "socket": // already used
		case !long || at < 0 || flags[at].Set(&r, value) != nil:
			return r, false
		}
	}
	return r, true
}

func text(of func(*Request) *string) func(*Request, string) error {
	return func(r *Request, value string) error {
		*of(r) = value
		return nil
	}
}

func oneOf(of func(*Request) *string, words ...string) func(*Request, string) error {
	return func(r *Request, value string) error {
		if !slices.Contains(words, value) {
			return fmt.Errorf("there is no %q: use %s", value, strings.Join(words, ", "))
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
	r.Memory, err = gpu.ParseMiB(value)
	return err
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

func setTimeout(r *Request, value string) error {
	seconds, err := parseSeconds(value)
	if err == nil {
		r.Timeout = gpu.Some(seconds)
	}
	return err
}

func setTime(r *Request, value string) error {
	seconds, err := parseSeconds(value)
	switch {
	case err != nil:
		return err
	case seconds < 1:
		return fmt.Errorf("a time limit must be 1 s or more, not %q: leave --time out for none", value)
	}
	r.TimeLimit = gpu.Some(seconds)
	return nil
}

// parseSeconds reads 90s, 10m, or a plain number of seconds.
func parseSeconds(value string) (float64, error) {
	length, err := time.ParseDuration(value)
	seconds := length.Seconds()
	if err != nil {
		seconds, err = strconv.ParseFloat(value, 64)
	}
	if err != nil || !(seconds >= 0 && seconds <= 1e9) {
		return 0, fmt.Errorf("%q is not a length of time: write it like 90s, 10m or 30 (seconds)", value)
	}
	return seconds, nil
}
