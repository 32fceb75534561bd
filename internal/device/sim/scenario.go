package sim

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/nvml/xid"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/text/document"
	"github.com/berth-gpu/berth/internal/text/words"
)

// scenario is a machine with its events: one script per model.
type scenario struct {
	models  []*model
	scripts []script
	speed   float64
}

// These bounds keep a scenario from costing more than it shows.
const (
	maxFile    = 256 << 10 // bytes
	maxEntries = 1000
	maxSpeed   = 1000
	minRepeat  = time.Second
	longest    = 365 * 24 * time.Hour
)

func readScenario(known *catalog, path string, firstIndex int) (*scenario, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, &device.Error{Op: "read the scenario", Err: err, Hint: "name a file in the language of berth help simulator"}
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the scenario: %w", err)
	}
	return parseScenario(known, path, text, firstIndex)
}

// parseScenario reads a scenario. Its error lists every mistake, each with its line.
func parseScenario(known *catalog, name string, text []byte, firstIndex int) (*scenario, error) {
	root, problem := document.Parse(text, document.Format{Noun: "the file", Bytes: maxFile})
	r := &reader{file: name}
	switch {
	case problem != nil && problem.Code == document.TooLarge:
		return nil, fmt.Errorf("read the scenario %s: more than %d KiB", name, maxFile>>10)
	case problem != nil:
		r.report(*problem)
		return nil, r.err()
	case root.Shape == document.Nothing:
		r.complain(root, `the file is empty; the shortest scenario is "devices: 4"`)
		return nil, r.err()
	}
	s := &scenario{speed: 1}
	var repeat time.Duration
	var timeline *document.Node
	devices := &document.Node{Line: root.Line, Shape: document.Single} // the default, unless the file names some
	r.section(root, "a scenario", []field{
		{"devices", func(n *document.Node) { devices = n }},
		{"speed", func(n *document.Node) {
			s.speed = r.number(n, "speed", 0.001, maxSpeed, "simulated seconds per second")
		}},
		{"repeat", func(n *document.Node) { repeat = r.duration(n, "repeat", minRepeat) }},
		{"timeline", func(n *document.Node) { timeline = n }},
	})
	before := len(r.complaints)
	s.models = r.devices(known, devices)
	s.scripts = make([]script, len(s.models))
	t := timelineReader{
		reader: r, scenario: s, repeat: repeat, firstIndex: firstIndex,
		blind: len(r.complaints) > before || root.Entry("devices") != nil && devices.Key == "",
	}
	t.read(timeline)
	return s, r.err()
}

// devices reads either the text after "sim:" or a list of models.
func (r *reader) devices(known *catalog, n *document.Node) []*model {
	if n.Shape != document.List {
		models, err := parseModels(known, r.text(n, "devices", "a number, a model, or a list of models"))
		if err != nil {
			r.complain(n, "devices: %v", err)
		}
		return models
	}
	var models []*model
	for item := range n.All("", r.report) {
		group, count := r.deviceGroup(known, item)
		if len(models)+count*len(group) > maxDevices {
			r.complain(item, "devices: more than %d devices", maxDevices)
			break
		}
		for range count {
			models = append(models, group...)
		}
	}
	return models
}

func (r *reader) deviceGroup(known *catalog, item *document.Node) (group []*model, count int) {
	count = 1
	r.section(item, "a device", []field{
		{"model", func(n *document.Node) {
			name := r.text(n, "model", "the name of a model")
			if group = known.expand(name); group == nil {
				r.complain(n, "model: %v", unknownModel(known, name))
			}
		}},
		{"count", func(n *document.Node) { count = r.whole(n, "count", 0, maxDevices, "devices") }},
	})
	if item.Entry("model") == nil {
		r.complain(item, "model: say which model this is")
	}
	return group, count
}

// timelineReader reads the entries of a timeline into the scripts of their devices.
type timelineReader struct {
	*reader
	scenario   *scenario
	repeat     time.Duration // default of entries
	firstIndex int
	blind      bool // whether the devices could not be read, so that no reference to one can be judged
}

func (t timelineReader) read(n *document.Node) {
	switch {
	case n == nil || n.Shape == document.Nothing:
		return
	case n.Shape != document.List:
		t.complain(n, "timeline: expected a list of entries, got %s", show(n))
		return
	case len(n.Items) > maxEntries:
		t.complain(n, "timeline: %d entries are more than the %d that are allowed", len(n.Items), maxEntries)
		return
	}
	for item := range n.All("", t.report) {
		e, devices := t.entry(item)
		for _, i := range devices {
			t.scenario.scripts[i] = append(t.scenario.scripts[i], e)
		}
	}
}

// entry reads one entry and the positions of its devices.
func (t timelineReader) entry(item *document.Node) (*entry, []int) {
	e := &entry{every: t.repeat}
	var devices []int
	before := len(t.complaints)
	ok := t.section(item, "an entry of the timeline", []field{
		{"at", func(n *document.Node) { e.at = t.duration(n, "at", 0) }},
		{"for", func(n *document.Node) { e.lasts = t.duration(n, "for", time.Millisecond) }},
		{"repeat", func(n *document.Node) { e.every = t.duration(n, "repeat", minRepeat) }},
		{"device", func(n *document.Node) { devices = t.which(n) }},
		{"load", func(n *document.Node) { e.load = gpu.Some(t.number(n, "load", 0, 100, "percent") / 100) }},
		{"ramp", func(n *document.Node) { e.ramp = t.duration(n, "ramp", 0) }},
		{"ambient_celsius", func(n *document.Node) { e.ambient = gpu.Some(t.number(n, "ambient_celsius", -20, 90, "degrees")) }},
		{"cooling", func(n *document.Node) {
			e.cooling = gpu.Some(t.number(n, "cooling", 0.05, 2, "times the usual air flow"))
		}},
		{"power_limit_watts", func(n *document.Node) { e.limit = gpu.Some(t.number(n, "power_limit_watts", 1, 5000, "watts")) }},
		{"process", func(n *document.Node) { e.process = t.process(n) }},
		{"hang", func(n *document.Node) { e.hang = t.yes(n, "hang") }},
		{"lost", func(n *document.Node) { e.lost = t.yes(n, "lost") }},
		{"fault", func(n *document.Node) { e.faults = append(e.faults, t.fault(n)) }},
		{"xid", func(n *document.Node) { e.faults = append(e.faults, t.xid(n)) }},
		{"ecc", func(n *document.Node) { e.faults = append(e.faults, t.memoryErrors(n)...) }},
		{"check", func(n *document.Node) { e.check = t.checkup(n) }},
	})
	if len(t.complaints) == before {
		t.check(item, e)
	}
	if ok && item.Entry("device") == nil {
		t.complain(item, "device: say which one: an index, a UUID or all")
	}
	return e, devices
}

// check complains about well-formed entries that make no sense.
func (t timelineReader) check(item *document.Node, e *entry) {
	lasting := e.load.Known() || e.ambient.Known() || e.cooling.Known() || e.limit.Known() || e.process != nil || e.hang || e.lost || e.check != nil
	switch {
	case !lasting && len(e.faults) == 0:
		t.complain(item, "the entry does nothing: give it load, ambient_celsius, cooling, power_limit_watts, process, hang, lost, check, fault, xid or ecc")
	case !lasting && e.lasts > 0:
		t.complain(item, "for: fault, xid and ecc happen at one moment and cannot last")
	case item.Entry("ramp") != nil && !e.load.Known():
		t.complain(item, "ramp: only load can ramp")
	case e.every > 0 && e.lasts > e.every:
		t.complain(item, "for: %v is longer than repeat (%v)", e.lasts, e.every)
	case e.every > 0 && e.ramp > e.every:
		t.complain(item, "ramp: %v is longer than repeat (%v)", e.ramp, e.every)
	case e.lasts > 0 && e.ramp > e.lasts:
		t.complain(item, "ramp: %v is longer than for (%v)", e.ramp, e.lasts)
	}
}

// which reads an index, a UUID, "all", or a list of these.
func (t timelineReader) which(n *document.Node) []int {
	if n.Shape == document.List {
		var list []int
		for item := range n.All("", t.report) {
			if item.Shape == document.List {
				t.complain(item, "device: expected an index or a UUID, got %s", show(item))
				continue
			}
			list = append(list, t.which(item)...)
		}
		return list
	}
	word := t.text(n, "device", "an index, a UUID or all")
	var all []int
	var uuids []string
	for i, m := range t.scenario.models {
		id := uuid(m, t.firstIndex+i)
		if word == id || word == strconv.Itoa(i) {
			return []int{i}
		}
		all, uuids = append(all, i), append(uuids, id)
	}
	switch {
	case word == "all":
		return all
	case word == "" || t.blind:
	case len(all) == 0:
		t.complain(n, "device: there is no %q, because there are no devices", clip(word))
	default:
		near, _ := words.Nearest(word, uuids)
		t.complain(n, "device: there is no %q; expected 0 to %d, all, or a UUID such as %s", clip(word), len(all)-1, near)
	}
	return nil
}

func (t timelineReader) process(n *document.Node) *process {
	p := &process{}
	ok := t.section(n, "a process", []field{
		{"pid", func(n *document.Node) { p.pid = t.pid(n) }},
		{"name", func(n *document.Node) { p.name = t.text(n, "name", "a name") }},
		{"memory_mb", func(n *document.Node) { p.memory = t.memory(n, "memory_mb") }},
		{"grow_mb_per_second", func(n *document.Node) { p.growth = t.number(n, "grow_mb_per_second", 0, 1e6, "MiB per second") }},
		{"load", func(n *document.Node) { p.load = t.number(n, "load", 0, 100, "percent") / 100 }},
		{"uid", func(n *document.Node) { p.uid = access.KnownUID(t.whole(n, "uid", 0, 1<<31-1, "the number of a user")) }},
		{"cgroup", func(n *document.Node) { p.cgroup = t.cgroup(n) }},
	})
	if ok && n.Entry("pid") == nil {
		t.complain(n, "pid: a process needs one")
	}
	return p
}

func (t timelineReader) cgroup(n *document.Node) string {
	path := t.text(n, "cgroup", "a path such as /system.slice/embedder.service")
	if path != "" && !strings.HasPrefix(path, "/") {
		t.complain(n, "cgroup: expected a path that begins with /, got %q", clip(path))
	}
	return path
}

func (t timelineReader) pid(n *document.Node) int {
	return t.whole(n, "pid", 1, 1<<31-1, "above 4194304 it is never that of a real process")
}

// fault reads a fault in words of no vendor: a class and, if given, a name, a severity, a
// remedy, a code and the process that caused it. A program's fault is a warning unless
// the script says otherwise; any other is serious, and puts the device in quarantine.
func (t timelineReader) fault(n *document.Node) fault {
	f := fault{Fault: gpu.Fault{Name: "a simulated fault"}}
	ok := t.section(n, "fault", []field{
		{"class", func(n *document.Node) { f.Class = oneOf(t, n, "class", gpu.FaultClasses()) }},
		{"severity", func(n *document.Node) {
			f.Severity = oneOf(t, n, "severity", []gpu.Severity{gpu.Note, gpu.Warning, gpu.Serious})
		}},
		{"name", func(n *document.Node) { f.Name = t.text(n, "name", "what happened, in a few words") }},
		{"remedy", func(n *document.Node) { f.Remedy = t.text(n, "remedy", "what to do about it") }},
		{"code", func(n *document.Node) { f.Code = t.text(n, "code", "what the vendor calls it") }},
		{"pid", func(n *document.Node) { f.pid = t.pid(n) }},
	})
	if ok && n.Entry("class") == nil {
		t.complain(n, "fault: say whose it is: {class: program}, device, link or driver")
	}
	if f.Severity == "" {
		f.Severity = gpu.Serious
		if f.Class == gpu.FaultProgram {
			f.Severity = gpu.Warning
		}
	}
	return f
}

// oneOf reads one of a few words.
func oneOf[T ~string](t timelineReader, n *document.Node, key string, words []T) T {
	var list []string
	for _, w := range words {
		list = append(list, string(w))
	}
	word := t.text(n, key, "one of "+strings.Join(list, ", "))
	if word != "" && !slices.Contains(list, word) {
		t.complain(n, "%s: expected one of %s, got %q", key, strings.Join(list, ", "), clip(word))
	}
	return T(word)
}

// checkup reads the result of a check: the steps that fail, the residue in memory, how
// long the check takes, or why it cannot be done.
func (t timelineReader) checkup(n *document.Node) *checkup {
	c := &checkup{}
	var names []proof.Name
	for _, verb := range proof.Verbs() {
		names = append(names, proof.Steps(verb)...)
	}
	t.section(n, "check", []field{
		{"fails", func(n *document.Node) {
			if n.Shape != document.List {
				c.fails = append(c.fails, oneOf(t, n, "fails", names))
				return
			}
			for item := range n.All("", t.report) {
				c.fails = append(c.fails, oneOf(t, item, "fails", names))
			}
		}},
		{"residue_mb", func(n *document.Node) { c.residue = gpu.MiB(t.memory(n, "residue_mb")) }},
		{"takes", func(n *document.Node) { c.takes = t.duration(n, "takes", 0) }},
		{"unable", func(n *document.Node) { c.unable = t.text(n, "unable", "why it cannot be asked") }},
	})
	return c
}

// xid reads the number of an XID, or the number and the process it is charged to.
func (t timelineReader) xid(n *document.Node) fault {
	var f fault
	code := func(n *document.Node) {
		code := t.whole(n, "xid", 1, 999, "as the driver numbers them")
		f.Fault, f.detail = xid.Describe(code), xid.Detail(code)
	}
	if n.Shape != document.Section {
		code(n)
		return f
	}
	t.section(n, "xid", []field{
		{"code", code},
		{"pid", func(n *document.Node) { f.pid = t.pid(n) }},
	})
	if n.Entry("code") == nil {
		t.complain(n, "xid: it needs a code")
	}
	return f
}

func (t timelineReader) memoryErrors(n *document.Node) (list []fault) {
	count := func(kind memoryKind) field {
		return field{string(kind), func(n *document.Node) {
			list = append(list, memoryFault(kind, int64(t.whole(n, string(kind), 1, 1e6, "errors"))))
		}}
	}
	ok := t.section(n, "ecc", []field{count(corrected), count(uncorrected)})
	if ok && len(list) == 0 {
		t.complain(n, "ecc: say how many errors: {corrected: 3} or {uncorrected: 1}")
	}
	return list
}
