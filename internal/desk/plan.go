package desk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch/pipeline"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Plans places pipelines on the devices, and starts what was planned.
type Plans struct {
	leases  *Leases
	devices *Devices
	ledger  *ledger.Ledger
	monitor *monitor.Monitor
	peaks   *peaks.Peaks
	cpus    int // of the machine; 0 if not known
	config  func() *config.Config
	publish func(gpu.Event)
}

// Make compiles pipelines against the devices as they are now, and publishes that it did.
// It starts nothing and leases nothing.
func (d *Plans) Make(by Caller, asked api.PlanRequest) (*api.Plan, error) {
	if err := checkPlanRequest(&asked); err != nil {
		return nil, err
	}
	if err := knownStatuses(asked.Libraries); err != nil {
		return nil, err
	}
	file, err := readPipelines(asked)
	if file == nil {
		return nil, err
	}
	plan, err := pipeline.Compile(file, d.world(file, asked, by.User))
	if err != nil {
		refusal := planRefused(err, asked)
		data := map[string]any{"problems": len(refusal.Fields)}
		d.tell(&by, gpu.Event{Data: data}, file.Name, "pipelines", "Refused to plan %s: %s", words.Count(len(refusal.Fields), "problem"))
		return nil, refusal
	}
	runs := 0
	for i := range plan.Pipelines {
		runs += len(plan.Pipelines[i].Runs)
	}
	data := map[string]any{"pipelines": len(plan.Pipelines), "runs": runs, "side_by_side": plan.SideBySide, "waves": plan.Waves}
	d.tell(&by, gpu.Event{Data: data}, file.Name, "pipelines", "Planned %s: %s, %d side by side on GPUs", words.Count(runs, "run"), plan.SideBySide)
	plan.Table = pipeline.Table(plan, pipeline.Width)
	return plan, nil
}

// readPipelines returns the pipelines of a request. Beside an error it may return those
// that it could read, so that the compiler can report on all of them.
func readPipelines(asked api.PlanRequest) (*pipeline.File, error) {
	name, text := asked.Name, []byte(asked.Text)
	if name == "" {
		name = "pipelines"
	}
	switch given := len(asked.Pipelines) > 0; {
	case given && asked.Text != "":
		return nil, Refuse(Invalid, "invalid_request", "Give the pipelines in pipelines, or as a file in text, and not both.")
	case given:
		text = fmt.Appendf(nil, `{"pipelines":%s}`, asked.Pipelines)
	case asked.Text == "":
		return nil, Refuse(Invalid, "invalid_request", "There are no pipelines: give them in pipelines, or as a file in text.")
	}
	file, err := pipeline.Parse(name, text)
	if err != nil {
		return file, planRefused(err, asked)
	}
	return file, nil
}

// world returns the world that a file is compiled for.
func (d *Plans) world(file *pipeline.File, asked api.PlanRequest, user string) pipeline.World {
	w := pipeline.World{
		Interpreter: asked.Interpreter, ProbeError: asked.ProbeError, CPUs: d.cpus,
		Libraries: asked.Libraries, Learned: d.learned(file, user), Context: d.config().GPU.Context,
	}
	for _, sum := range d.ledger.Sums() {
		on := sum.Device
		w.Devices = append(w.Devices, pipeline.Device{
			UUID: on.UUID, Index: on.Index, Name: on.Name, Vendor: on.Vendor, PCI: on.PCI, ComputeCapability: on.ComputeCapability,
			MemoryTotal: on.MemoryTotal, Ceiling: max(sum.Most, 1), Available: sum.Available(),
			Active: sum.Active, Usable: sum.Usable, MaxPipelines: sum.MaxPipelines, State: sum.State, Closed: sum.Closed,
			Recent: sum.Recent.Order(),
		})
	}
	return w
}

// learned returns what earlier runs showed about the steps of a file, by signature.
func (d *Plans) learned(file *pipeline.File, user string) map[string]pipeline.Peak {
	all := map[string]pipeline.Peak{}
	for i := range file.Pipelines {
		p := &file.Pipelines[i]
		for j := range p.Steps {
			step := &p.Steps[j]
			name, of := p.Name, step.Name
			if step.Function != "" {
				name, of = step.Function, ""
			}
			if e, known := d.peaks.Find(peaks.Key{User: user, Name: name, Step: of}); known {
				all[p.Signature(step)] = pipeline.Peak{Memory: e.Known(), Seconds: e.Seconds(), Observations: e.Count}
			}
		}
	}
	return all
}

// knownStatuses refuses a status that no library has.
func knownStatuses(said map[string]api.Library) error {
	var errs lease.FieldErrors
	for _, name := range slices.Sorted(maps.Keys(said)) {
		switch status := said[name].Status; status {
		case "", api.LibraryOK, api.LibraryMissing, api.LibraryBroken:
		default:
			errs = append(errs, lease.FieldError{Field: "libraries." + name + ".status", Detail: fmt.Sprintf("%q is none of ok, missing, broken", status)})
		}
	}
	if errs != nil {
		return wrongFields(errs)
	}
	return nil
}

// planRefused returns a refusal that lists everything wrong with a file. It names lines
// only if the pipelines came as a file: those of JSON help nobody.
func planRefused(err error, asked api.PlanRequest) *Refusal {
	all := (*pipeline.Error)(nil)
	if !errors.As(err, &all) {
		return Refuse(Failed, "internal", "The daemon could not do this: %v.", err)
	}
	r := Refuse(Invalid, "plan_refused", "%s cannot be planned: %s. Nothing was started.",
		words.UpperFirst(all.File), words.Count(len(all.Problems), "problem"))
	for i := range all.Problems {
		found := &all.Problems[i]
		if asked.Text == "" {
			found.Line = 0
		}
		detail := found.Reason
		if found.Remedy != "" {
			detail += "; " + found.Remedy
		}
		if found.Line > 0 {
			detail = fmt.Sprintf("line %d: %s", found.Line, detail)
		}
		r.Fields = append(r.Fields, api.FieldProblem{Field: whereInFile(found), Detail: detail})
	}
	r.Extra = map[string]any{"problems": all.Problems}
	return r
}

func whereInFile(p *pipeline.Problem) string {
	switch {
	case p.Step != "":
		return p.Pipeline + "/" + p.Step
	case p.Pipeline != "":
		return p.Pipeline
	}
	return "file"
}

// tell publishes what became of a plan or of one of its runs. The first argument of the
// format is its name; other users read its kind instead.
func (d *Plans) tell(by *Caller, e gpu.Event, name, kind, format string, args ...any) {
	say := func(what string) string {
		return fmt.Sprintf(format, append([]any{what}, args...)...) + ", for " + by.User
	}
	e.Time, e.Code, e.Severity, e.User, e.By = time.Now(), gpu.EventPlan, gpu.Note, by.User, lease.ByOf(by.Actor)
	e.Text, e.Public = say(name), say(kind)
	d.publish(e)
}

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
