package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// field is one setting, a section of settings, or a map of such sections.
type field struct {
	key    string
	goName string
	index  []int // position in its struct
	doc    string

	// A section has fields; a map of sections also has a placeholder for its names.
	fields []field
	names  string
	short  string // the setting of a section that a single value in its place sets

	// The rest describes a setting.
	kind     kind
	def      string
	hasDef   bool
	absent   string
	env      string
	secret   bool // never show its value
	closed   bool // a file that sets it must be closed to others
	noEmpty  bool
	oneof    []string
	check    string
	operator bool   // operators may change it at run time
	private  bool   // only operators see its value
	set      string // how it must not be changed at run time; see Difference
	split    bool   // a list that may be one text

	min, max, over *float64
	above, from    string
}

func (f *field) isSetting() bool { return f.fields == nil }

// schema reads the tags of Config.
func schema() []field { return describe(reflect.TypeFor[Config](), nil) }

// describe lists the fields of a struct. The field in outer with the same name describes
// a field without tags of its own.
func describe(t reflect.Type, outer []field) []field {
	var list []field
	for _, sf := range reflect.VisibleFields(t) {
		if sf.Anonymous {
			continue // its fields are listed themselves
		}
		f := described(sf, outer)
		switch {
		case f.names != "":
			f.fields = describe(sf.Type.Elem(), list)
		case sf.Type.Kind() == reflect.Struct && !isOpt(sf.Type):
			f.fields = describe(sf.Type, nil)
		default:
			f.kind = kindOf(sf.Type)
		}
		list = append(list, f)
	}
	return list
}

func described(sf reflect.StructField, outer []field) field {
	f := field{key: sf.Tag.Get("key"), doc: sf.Tag.Get("doc")}
	if f.key == "" {
		f.key = sf.Tag.Get("json")
	}
	if i := slices.IndexFunc(outer, func(o field) bool { return o.goName == sf.Name }); f.key == "" && i >= 0 {
		f = outer[i]
		f.def, f.hasDef = "", false
		f.index = sf.Index
		return f
	}
	f.goName, f.index = sf.Name, sf.Index
	f.names, f.check, f.short = sf.Tag.Get("names"), sf.Tag.Get("check"), sf.Tag.Get("short")
	f.def, f.hasDef = sf.Tag.Lookup("default")
	f.absent, f.env = sf.Tag.Get("absent"), sf.Tag.Get("env")
	f.operator = sf.Tag.Get("role") == "operator"
	secret := sf.Tag.Get("secret")
	f.secret, f.closed, f.noEmpty = secret == "yes" || secret == "hide", secret == "yes" || secret == "file", sf.Tag.Get("empty") == "no"
	f.set = sf.Tag.Get("set")
	f.private, f.split = sf.Tag.Get("sight") == "operator", sf.Tag.Get("split") == "shell"
	f.above, f.from = sf.Tag.Get("above"), sf.Tag.Get("from")
	f.min, f.max, f.over = bound(sf, "min"), bound(sf, "max"), bound(sf, "over")
	if words := sf.Tag.Get("oneof"); words != "" {
		f.oneof = strings.Split(words, ",")
	}
	return f
}

// bound panics on a tag that is not a number, a mistake in this package that its tests
// find.
func bound(sf reflect.StructField, tag string) *float64 {
	text, ok := sf.Tag.Lookup(tag)
	if !ok {
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("config: tag %s of %s: %v", tag, sf.Name, err))
	}
	return &v
}

func find(fields []field, key string) *field {
	for i := range fields {
		if fields[i].key == key {
			return &fields[i]
		}
	}
	return nil
}

// Field describes one setting, for documentation, flags and completion.
type Field struct {
	Name    string // dotted: gpu.temp_optimal, services.NAME.priority
	Unit    string // "°C", "MiB"; empty if it has none
	Default string // as written in berth.yaml, or what applies without a value
	Range   string // "above 0, at most 150"; empty means any
	Doc     string
	Env     []string // the variables that set it, the long name first
	Flag    string   // of berth serve, without dashes; empty if there is none
	Role    string   // the least role that may change it at run time; empty means nobody
}

// Describe lists every setting in order. It lists the settings of single devices once,
// for all devices.
func Describe() []Field {
	var list []Field
	root := schema()
	each(root, nil, func(path []string, f *field) {
		list = append(list, Field{
			Name: dotted(path), Unit: f.kind.unit(),
			Default: shownDefault(root, path, f), Range: f.rangeText(), Doc: f.doc,
			Env: envNames(path, f), Flag: serveFlag(path, f), Role: f.role(path),
		})
	})
	return list
}

// role returns the least role that may change a setting at run time.
func (f *field) role(path []string) string {
	switch {
	case path[0] == "daemon":
		return ""
	case f.operator:
		return "operator"
	}
	return "admin"
}

// Private reports whether only operators may see the value of a setting, given its dotted
// name.
func Private(name string) bool {
	fields, path := schema(), strings.Split(name, ".")
	for len(path) > 0 {
		f := find(fields, path[0])
		if f == nil || f.isSetting() {
			return f != nil && f.private
		}
		if fields, path = f.fields, path[1:]; f.names != "" && len(path) > 0 {
			path = path[1:]
		}
	}
	return false
}

// each visits the settings of sections. It leaves out those of gpu.devices, which repeat
// the section around them, and uses the placeholder for the names of other maps.
func each(fields []field, path []string, visit func([]string, *field)) {
	for i := range fields {
		f := &fields[i]
		at := append(slices.Clip(path), f.key)
		switch {
		case f.isSetting():
			visit(at, f)
		case f.names == "":
			each(f.fields, at, visit)
		case !f.repeats(fields):
			each(f.fields, append(at, f.names), visit)
		}
	}
}

// repeats reports whether the section around a map describes the entries of the map.
func (f *field) repeats(around []field) bool {
	return find(around, f.fields[0].key) != nil
}

func dotted(path []string) string { return strings.Join(path, ".") }

// envNames returns the variables that set a field; a list, and a field inside a map, has
// none.
func envNames(path []string, f *field) []string {
	if len(path) > 2 || f.kind == list {
		return nil
	}
	long := strings.ToUpper("BERTH_" + strings.Join(path, "_"))
	if f.env == "" {
		return []string{long}
	}
	return []string{long, f.env}
}

// flagName returns --listen for daemon.listen and --gpu-temp-optimal for
// gpu.temp_optimal. A secret has no flag, because everybody can see flags.
func flagName(path []string, f *field) string {
	if len(path) > 2 || f.secret {
		return ""
	}
	if path[0] == "daemon" {
		path = path[1:]
	}
	return strings.ReplaceAll(strings.Join(path, "-"), "_", "-")
}

// serveFlag returns the flag of berth serve that sets a field; empty if it has none.
func serveFlag(path []string, f *field) string {
	switch dotted(path) {
	case "daemon.devices", "daemon.state_dir", "daemon.socket", "daemon.listen", "daemon.log_level":
		return flagName(path, f)
	}
	return ""
}

func (f *field) rangeText() string {
	var parts []string
	add := func(word string, bound *float64) {
		if bound != nil {
			parts = append(parts, word+" "+formatNumber(*bound))
		}
	}
	switch {
	case f.oneof != nil:
		return strings.Join(f.oneof, ", ")
	case f.min != nil && f.max != nil:
		return formatNumber(*f.min) + " to " + formatNumber(*f.max)
	}
	add("above", f.over)
	add("at least", f.min)
	add("at most", f.max)
	if f.above != "" {
		parts = append(parts, "above "+f.above)
	}
	if f.from != "" {
		parts = append(parts, "at least "+f.from)
	}
	return strings.Join(parts, ", ")
}
