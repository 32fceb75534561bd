package world

import (
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// The kinds of things that people have, and what can meet them. Each pair is a mark.
var (
	kinds = []string{"exec", "allocation", "pool", "part", "job", "pod", "service"}
	meets = []string{"release", "cancel", "park", "resize", "a limit", "a killed process", "a full disk", "a broken disk", "a restart", "a reboot", "a set clock", "a hang of its device", "new settings"}
)

// jobStates and serviceStates are the states in which an answer can name a job or a service.
var (
	jobStates     = []string{"held", "waiting", "starting", "running", "parked", "done", "failed", "cancelled", "timed_out", "lost"}
	serviceStates = []string{"away", "waiting", "starting", "ready", "closing", "leaving", "parked", "asleep", "returning", "failed", "stopped"}
	leaseStates   = []string{"active", "parking", "parked", "resuming", "waiting"}
)

// unreachable are the events of what the world does not have.
var unreachable = []gpu.EventCode{gpu.EventGap}

// Marks lists the places that histories should reach.
func Marks() (all []string) {
	for _, k := range kinds {
		for _, m := range meets {
			all = append(all, k+" × "+m)
		}
	}
	for _, s := range jobStates {
		all = append(all, "a job is "+s)
	}
	for _, s := range serviceStates {
		all = append(all, "a service is "+s)
	}
	for _, s := range leaseStates {
		all = append(all, "a lease is "+s)
	}
	for _, c := range gpu.EventCodes() {
		if !slices.Contains(unreachable, c) {
			all = append(all, "told: "+string(c))
		}
	}
	return all
}

// met notes that something meets all that stands.
func (w *World) met(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.promises[max(0, len(w.promises)-60):] {
		if p.stands() {
			w.marks[p.kind+" × "+what]++
		}
	}
	if len(w.servers) > 0 {
		w.marks["service × "+what]++
	}
}

// never returns the marks that were not reached.
func never(reached map[string]int) (list []string) {
	for _, m := range Marks() {
		if reached[m] == 0 {
			list = append(list, m)
		}
	}
	return list
}

// wrapped breaks a list into lines.
func wrapped(list []string) string {
	var lines []string
	line := ""
	for _, one := range list {
		if len(line)+len(one) > 100 {
			lines, line = append(lines, line), ""
		}
		line += one + "; "
	}
	return strings.Join(append(lines, line), "\n  ")
}
