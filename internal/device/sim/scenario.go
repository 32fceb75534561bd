package sim

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/words"
)

// scenario is a machine and what happens to it: one script per model.
type scenario struct {
	models  []*model
	scripts []script
	speed   float64
}

// Bounds that keep a scenario from costing more than it shows.
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
		return nil, &device.Error{Op: "read the scenario", Err: err, Hint: "name a file in the language of docs/simulator.md"}
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the scenario: %w", err)
	}
	return parseScenario(known, path, text, firstIndex)
}

// parseScenario reads a scenario. Its error lists every mistake, each with the
// line it is on.
func parseScenario(known *catalog, name string, text []byte, firstIndex int) (*scenario, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("read the scenario %s: more than %d KiB", name, maxFile>>10)
	}
	r := &reader{file: name}
	root := r.document(text)
	if root == nil {
		return nil, r.err()
	}
	s := &scenario{speed: 1}
	var repeat time.Duration
	var timeline *yaml.Node
	devices := &yaml.Node{Kind: yaml.ScalarNode, Line: root.Line}
	r.mapping(root, "a scenario", []field{
		{"devices", func(n *yaml.Node) { devices = n }},
		{"speed", func(n *yaml.Node) { s.speed = r.number(n, "speed", 0.001, maxSpeed, "simulated seconds per second") }},
		{"repeat", func(n *yaml.Node) { repeat = r.duration(n, "repeat", minRepeat) }},
		{"timeline", func(n *yaml.Node) { timeline = n }},
	})
	before := len(r.complaints)
	s.models = r.devices(known, devices)
	s.scripts = make([]script, len(s.models))
	t := timelineReader{
		reader: r, scenario: s, repeat: repeat, firstIndex: firstIndex,
		blind: len(r.complaints) > before,
	}
	t.read(timeline)
	return s, r.err()
}

// devices reads either the text that stands after "sim:" or a list of models.
func (r *reader) devices(known *catalog, n *yaml.Node) []*model {
	if n.Kind != yaml.SequenceNode {
		models, err := parseModels(known, r.text(n, "devices", "a number, a model, or a list of models"))
		if err != nil {
			r.complain(n, "devices: %v", err)
		}
		return models
	}
	var models []*model
	for _, item := range n.Content {
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

func (r *reader) deviceGroup(known *catalog, item *yaml.Node) (group []*model, count int) {
	count = 1
	r.mapping(item, "a device", []field{
		{"model", func(n *yaml.Node) {
			name := r.text(n, "model", "the name of a model")
			if group = known.expand(name); group == nil {
				r.complain(n, "model: %v", unknownModel(known, name))
			}
		}},
		{"count", func(n *yaml.Node) { count = r.whole(n, "count", 0, maxDevices, "devices") }},
	})
	if !has(item, "model") {
		r.complain(item, "model: say which model this is")
	}
	return group, count
}

// timelineReader reads the entries of a timeline into the scripts of the devices
// they are about.
type timelineReader struct {
	*reader
	scenario   *scenario
	repeat     time.Duration // of entries that do not say
	firstIndex int
	blind      bool // the devices could not be read, so no reference to one can be judged
}

func (t timelineReader) read(n *yaml.Node) {
	switch {
	case n == nil || n.Tag == "!!null":
		return
	case n.Kind != yaml.SequenceNode:
		t.complain(n, "timeline: expected a list of entries, got %s", show(n))
		return
	case len(n.Content) > maxEntries:
		t.complain(n, "timeline: %d entries are more than the %d that are allowed", len(n.Content), maxEntries)
		return
	}
	for _, item := range n.Content {
		e, devices := t.entry(item)
		for _, i := range devices {
			t.scenario.scripts[i] = append(t.scenario.scripts[i], e)
		}
	}
}

// entry reads one entry and the positions of its devices.
func (t timelineReader) entry(item *yaml.Node) (*entry, []int) {
	e := &entry{every: t.repeat}
	var devices []int
	before := len(t.complaints)
	ok := t.mapping(item, "an entry of the timeline", []field{
		{"at", func(n *yaml.Node) { e.at = t.duration(n, "at", 0) }},
		{"for", func(n *yaml.Node) { e.lasts = t.duration(n, "for", time.Millisecond) }},
		{"repeat", func(n *yaml.Node) { e.every = t.duration(n, "repeat", minRepeat) }},
		{"device", func(n *yaml.Node) { devices = t.which(n) }},
		{"load", func(n *yaml.Node) { e.load = gpu.Some(t.number(n, "load", 0, 100, "percent") / 100) }},
		{"ramp", func(n *yaml.Node) { e.ramp = t.duration(n, "ramp", 0) }},
		{"ambient_celsius", func(n *yaml.Node) { e.ambient = gpu.Some(t.number(n, "ambient_celsius", -20, 90, "degrees")) }},
		{"cooling", func(n *yaml.Node) { e.cooling = gpu.Some(t.number(n, "cooling", 0.05, 2, "times the usual air flow")) }},
		{"process", func(n *yaml.Node) { e.process = t.process(n) }},
		{"hang", func(n *yaml.Node) { e.hang = t.yes(n, "hang") }},
		{"lost", func(n *yaml.Node) { e.lost = t.yes(n, "lost") }},
		{"xid", func(n *yaml.Node) { e.faults = append(e.faults, t.xid(n)) }},
		{"ecc", func(n *yaml.Node) { e.faults = append(e.faults, t.memoryErrors(n)...) }},
	})
	if len(t.complaints) == before {
		t.check(item, e)
	}
	if ok && !has(item, "device") {
		t.complain(item, "device: say which one: an index, a UUID or all")
	}
	return e, devices
}

// check refuses what is well-formed and makes no sense.
func (t timelineReader) check(item *yaml.Node, e *entry) {
	lasting := e.load.Known() || e.ambient.Known() || e.cooling.Known() || e.process != nil || e.hang || e.lost
	switch {
	case !lasting && len(e.faults) == 0:
		t.complain(item, "the entry does nothing: give it load, ambient_celsius, cooling, process, hang, lost, xid or ecc")
	case !lasting && e.lasts > 0:
		t.complain(item, "for: xid and ecc happen at one moment and cannot last")
	case has(item, "ramp") && !e.load.Known():
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
func (t timelineReader) which(n *yaml.Node) []int {
	if n.Kind == yaml.SequenceNode {
		var list []int
		for _, item := range n.Content {
			if item.Kind == yaml.SequenceNode {
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

func (t timelineReader) process(n *yaml.Node) *process {
	p := &process{}
	ok := t.mapping(n, "a process", []field{
		{"pid", func(n *yaml.Node) {
			p.pid = t.whole(n, "pid", 1, 1<<31-1, "above 4194304 it is never that of a real process")
		}},
		{"name", func(n *yaml.Node) { p.name = t.text(n, "name", "a name") }},
		{"memory_mb", func(n *yaml.Node) { p.memory = t.memory(n, "memory_mb") }},
		{"grow_mb_per_second", func(n *yaml.Node) { p.growth = t.number(n, "grow_mb_per_second", 0, 1e6, "MiB per second") }},
		{"load", func(n *yaml.Node) { p.load = t.number(n, "load", 0, 100, "percent") / 100 }},
	})
	if ok && !has(n, "pid") {
		t.complain(n, "pid: a process needs one")
	}
	return p
}

func (t timelineReader) pid(n *yaml.Node) int {
	return t.whole(n, "pid", 1, 1<<31-1, "above 4194304 it is never that of a real process")
}

// xid reads the number of an XID, or that and the process it is charged to.
func (t timelineReader) xid(n *yaml.Node) fault {
	f := fault{kind: device.FaultXID}
	code := func(n *yaml.Node) { f.code = t.whole(n, "xid", 1, 999, "as the driver numbers them") }
	if n.Kind != yaml.MappingNode {
		code(n)
		return f
	}
	t.mapping(n, "xid", []field{
		{"code", code},
		{"pid", func(n *yaml.Node) { f.pid = t.pid(n) }},
	})
	if !has(n, "code") {
		t.complain(n, "xid: it needs a code")
	}
	return f
}

func (t timelineReader) memoryErrors(n *yaml.Node) (list []fault) {
	count := func(kind device.FaultKind, key string) field {
		return field{key, func(n *yaml.Node) {
			list = append(list, fault{kind: kind, count: int64(t.whole(n, key, 1, 1e6, "errors"))})
		}}
	}
	ok := t.mapping(n, "ecc", []field{
		count(device.FaultECCCorrected, "corrected"),
		count(device.FaultECCUncorrected, "uncorrected"),
	})
	if ok && len(list) == 0 {
		t.complain(n, "ecc: say how many errors: {corrected: 3} or {uncorrected: 1}")
	}
	return list
}
