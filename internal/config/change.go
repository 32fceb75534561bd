package config

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-gpu/berth/internal/text/document"
)

// Change applies a change at run time. The body is a JSON object with any settings of the
// gpu section, and beside them the sections optimization, services and hooks, and
// unknown_services. Change merges it as RFC 7396 says: an absent setting stays, and null
// returns to what the weaker sources say, also for single devices, services and hooks. A
// value that equals the present one is no change, so an answer to GET can be edited and
// sent back.
//
// Change validates the whole result, and applies all of it or nothing. It refuses to
// change a setting that the environment or a flag decides, and the section daemon. Change
// returns the new settings, and the text to store so that ParseSaved finds it at the next
// start.
func (s *Settings) Change(body []byte) (*Settings, []byte, error) {
	request, cleared := readChange(body)
	saved := s.saved()
	present := s.present()
	for _, v := range request.sorted() {
		name := dotted(v.path)
		_, set := s.values[name]
		switch {
		case v.v == nil && (set || v.path[0] != "services"): // the bare entry of a device or a hook sets nothing
		case v.v != nil && reflect.DeepEqual(present[name], v.v):
		case !s.changeable(&request, v.path):
		default:
			saved.values[name] = v
		}
	}
	for _, path := range cleared {
		if s.changeable(&request, path) {
			saved.clear(path)
		}
	}
	saved.complaints, saved.bad = request.complaints, request.bad

	trial := slices.DeleteFunc(slices.Clone(s.layers), func(l Layer) bool { return l.rank == atRunTime })
	trial = append(trial, saved)
	if _, err := Merge(trial...); err != nil {
		return nil, nil, asRequest(err)
	}

	// The text is also the source of the settings, so that both agree.
	text, err := saved.text()
	if err != nil {
		return nil, nil, err
	}
	if trial[len(trial)-1], err = ParseKnown(SavedAtRunTime, text); err != nil {
		return nil, nil, err
	}
	next, err := Merge(trial...)
	if err != nil {
		return nil, nil, err
	}
	return next, text, nil
}

// changeable reports whether a setting can be changed at run time. If not, it adds a
// complaint to the request.
func (s *Settings) changeable(request *Layer, path []string) bool {
	switch name := dotted(path); {
	case path[0] == "daemon":
		request.complain(source{}, path, FixedWhileRunning)
	case s.pinned(name):
		request.complain(source{}, path, pinnedBy(s.Source(name)))
	default:
		return true
	}
	return false
}

// FixedWhileRunning says what to do about a setting of the section daemon.
const FixedWhileRunning = "cannot change while the daemon runs: set it in berth.yaml and restart the daemon"

// readChange reads the body; cleared lists the paths that are null.
func readChange(body []byte) (request Layer, cleared [][]string) {
	root := schema()
	r := reader{layer: newLayer(inRequest), home: "gpu", schema: root}
	r.cleared = func(path []string) { cleared = append(cleared, path) }
	n, problem := document.Parse(body, document.Format{Noun: "the body", Bytes: maxDocument, JSON: true})
	switch {
	case problem != nil:
		r.report(*problem)
	case n.Shape != document.Section:
		r.layer.complaints.add(Complaint{Reason: `the body must be a JSON object such as {"temp_optimal": 60}`})
	default:
		r.section(slices.Concat(find(root, "gpu").fields, sectionsBeside(root)), n)
	}
	return r.layer, cleared
}

// sectionsBeside returns the sections of berth.yaml beside gpu.
func sectionsBeside(root []field) []field {
	return slices.DeleteFunc(slices.Clone(root), func(f field) bool { return f.key == "gpu" })
}

// saved returns a copy of the layer of earlier changes.
func (s *Settings) saved() Layer {
	saved := newLayer(atRunTime)
	for _, layer := range s.layers {
		if layer.rank == atRunTime {
			maps.Copy(saved.values, layer.values)
			saved.kept = append(saved.kept, layer.kept...)
		}
	}
	return saved
}

// clear removes a setting, or all settings below a section.
func (l *Layer) clear(path []string) {
	name := dotted(path)
	maps.DeleteFunc(l.values, func(key string, _ value) bool { return isBelow(key, name) })
	l.kept = slices.DeleteFunc(l.kept, func(v value) bool { return isBelow(dotted(v.path), name) })
}

// present returns the present value of every setting, nil if it is absent.
func (s *Settings) present() map[string]any {
	now := map[string]any{}
	walk(schema(), reflect.ValueOf(s.Config), nil, func(path []string, _ *field, v any) { now[dotted(path)] = v })
	return now
}

// pinned reports whether a source that is stronger than run time decides.
func (s *Settings) pinned(field string) bool { return s.values[field].source.rank > atRunTime }

func pinnedBy(source string) string {
	return "is set by " + source + ", which is stronger: change it there"
}

// asRequest names fields as the body does.
func asRequest(err error) error {
	refused, ok := err.(*Error)
	if !ok {
		return err
	}
	for i, c := range refused.Complaints {
		refused.Complaints[i].Field = strings.TrimPrefix(c.Field, "gpu.")
	}
	return refused
}

const savedHeader = "# Settings changed at run time with PUT /api/gpu/config. Stronger than berth.yaml.\n"

// text writes a layer as YAML.
func (l *Layer) text() ([]byte, error) {
	tree := map[string]any{}
	for _, v := range slices.Concat(l.kept, l.sorted()) {
		if v.v == nil && v.path[0] != "services" || v.shut {
			continue // the bare entry of a device or a hook sets nothing
		}
		at := tree
		for _, key := range v.path[:len(v.path)-1] {
			below, ok := at[key].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[key] = below
			}
			at = below
		}
		last := v.path[len(v.path)-1]
		if at[last] == nil {
			at[last] = map[string]any{} // makes a service known even if nothing else is set for it
		}
		if v.v != nil {
			at[last] = v.v
		}
		if n, ok := v.v.(float64); ok && n == math.Trunc(n) {
			at[last] = int64(n) // 100000, not 1e+05
		}
	}
	text, err := yaml.Marshal(tree)
	return append([]byte(savedHeader), text...), err
}

// WithoutSecrets returns a text that Change returned without the secrets in it, and the
// names of the settings that it leaves out: those that are never shown, and all of hooks,
// which do nothing without them.
func WithoutSecrets(name string, text []byte) (clean []byte, dropped []string, err error) {
	saved, err := ParseSaved(name, text)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range saved.sorted() {
		if v.path[0] == "hooks" || secretAt(schema(), v.path) {
			delete(saved.values, dotted(v.path))
			dropped = append(dropped, dotted(v.path))
		}
	}
	clean, err = saved.text()
	return clean, dropped, err
}

// secretAt reports whether the setting at a path, or below it, is never shown.
func secretAt(fields []field, path []string) bool {
	if len(path) == 0 {
		return false
	}
	f := find(fields, path[0])
	switch {
	case f == nil:
		return true // unknown means no
	case f.isSetting():
		return f.secret || f.closed
	case f.names != "" && len(path) > 1:
		return secretAt(f.fields, path[2:])
	}
	return secretAt(f.fields, path[1:])
}
