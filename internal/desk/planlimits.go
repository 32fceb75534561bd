package desk

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/lease"
)

// The limits of the fields of a plan, in characters. Names go into events and into the
// answer of every run, so a long one would be there thousands of times.
const (
	maxPlanName    = lease.MaxIDLength // of a file, a pipeline, a run, a service, a policy, a device
	maxPlanWish    = 512               // what a pipeline asks of its device
	maxInterpreter = 4096
	maxReason      = 4096 // why a library is missing or broken
	maxProbeError  = 16384
	maxLibraries   = 1024 // and the most devices that a library may list
	maxLibraryText = 256  // a name, a version, a device
)

// lengths collects the fields that are too long.
type lengths struct{ errs lease.FieldErrors }

// text checks the length of a field. The format and its arguments make the name of the
// field.
func (l *lengths) text(text string, most int, format string, args ...any) {
	if len(text) > most && utf8.RuneCountInString(text) > most {
		l.wrong(fmt.Sprintf("is longer than %d characters", most), format, args...)
	}
}

// list checks how many elements a field has.
func (l *lengths) list(n, most int, format string, args ...any) {
	if n > most {
		l.wrong(fmt.Sprintf("has %d elements, and at most %d are taken", n, most), format, args...)
	}
}

func (l *lengths) wrong(detail, format string, args ...any) {
	const enough = 16 // a plan can have thousands
	if len(l.errs) < enough {
		l.errs = append(l.errs, lease.FieldError{Field: fmt.Sprintf(format, args...), Detail: detail})
	}
}

// err refuses the fields that are too long. It returns nil if there are none.
func (l *lengths) err() error {
	if l.errs == nil {
		return nil
	}
	return wrongFields(l.errs)
}

// checkPlanRequest refuses fields that are too long in a request for a plan. No door
// checks them, because a pipeline file has its own reader.
func checkPlanRequest(asked *api.PlanRequest) error {
	var l lengths
	l.text(asked.Name, maxPlanName, "name")
	l.text(asked.Interpreter, maxInterpreter, "interpreter")
	l.text(asked.ProbeError, maxProbeError, "probe_error")
	l.list(len(asked.Libraries), maxLibraries, "libraries")
	for _, name := range slices.Sorted(maps.Keys(asked.Libraries)) {
		if utf8.RuneCountInString(name) > maxLibraryText {
			l.text(name, maxLibraryText, "libraries")
			continue
		}
		library := asked.Libraries[name]
		l.text(library.Status, maxLibraryText, "libraries.%s.status", name)
		l.text(library.Version, maxLibraryText, "libraries.%s.version", name)
		l.text(library.Reason, maxReason, "libraries.%s.reason", name)
		l.text(library.Error, maxReason, "libraries.%s.error", name)
		l.text(library.DevicesUnknown, maxReason, "libraries.%s.devices_unknown", name)
		l.list(len(library.Devices), maxLibraries, "libraries.%s.devices", name)
		for i, device := range library.Devices {
			l.text(device.UUID, maxLibraryText, "libraries.%s.devices[%d].uuid", name, i)
			l.text(device.PCI, maxLibraryText, "libraries.%s.devices[%d].pci_bus_id", name, i)
			l.text(device.Name, maxLibraryText, "libraries.%s.devices[%d].name", name, i)
		}
	}
	return l.err()
}

// checkLengths refuses fields that are too long in a plan that the caller brought, and in
// the names of the runs.
func (a *planOrder) checkLengths() error {
	var l lengths
	l.text(a.ID, maxPlanName, "id")
	l.list(len(a.Runs), maxPlanRuns, "runs")
	for i, name := range a.Runs {
		l.text(name, maxPlanName, "runs[%d]", i)
	}
	for i := range a.Plan.Pipelines {
		p := &a.Plan.Pipelines[i]
		l.text(p.Name, maxPlanName, "plan.pipelines[%d].name", i)
		l.text(p.Service, maxPlanName, "plan.pipelines[%d].service", i)
		l.text(p.Policy, maxPlanName, "plan.pipelines[%d].policy", i)
		l.text(p.GPU, maxPlanWish, "plan.pipelines[%d].gpu", i)
		l.list(len(p.Candidates), maxLibraries, "plan.pipelines[%d].candidates", i)
		for j, uuid := range p.Candidates {
			l.text(uuid, maxPlanName, "plan.pipelines[%d].candidates[%d]", i, j)
		}
		for j := range p.Runs {
			l.text(p.Runs[j].Name, maxPlanName, "plan.pipelines[%d].runs[%d].name", i, j)
			l.text(p.Runs[j].GPU, maxPlanName, "plan.pipelines[%d].runs[%d].gpu", i, j)
		}
	}
	return l.err()
}
