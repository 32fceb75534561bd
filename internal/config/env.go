package config

import (
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/text/words"
)

// kubernetesService matches the variables that Kubernetes sets in every container for a
// service called berth or berth-gpu. They are not settings of berth.
func kubernetesService() *regexp.Regexp {
	return regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$`)
}

// ParseEnv reads variables of the form NAME=value. An empty variable counts as not set.
// ParseEnv refuses an unknown variable that begins with BERTH_ if it names a section or
// resembles a known one.
func ParseEnv(environ []string) (Layer, error) {
	layer, foreign := newLayer(inEnvironment), kubernetesService()
	type target struct {
		path []string
		f    *field
	}
	known := map[string]target{"BERTH_URL": {}, "BERTH_JOB": {}} // for clients, and of a job
	sections := []string{"BERTH_SERVICES_", "BERTH_HOOKS_"}
	each(schema(), nil, func(path []string, f *field) {
		for _, name := range envNames(path, f) {
			known[name] = target{path, f}
			sections = append(sections, "BERTH_"+strings.ToUpper(path[0])+"_")
		}
	})
	names := slices.Sorted(maps.Keys(known))

	for _, variable := range slices.Sorted(slices.Values(environ)) {
		name, written, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "BERTH_") || written == "" || foreign.MatchString(name) {
			continue
		}
		from := source{name: "environment " + name}
		t, ok := known[name]
		if !ok {
			named := slices.ContainsFunc(sections, func(s string) bool { return strings.HasPrefix(name, s) })
			if near, _ := words.Nearest(name, names); named || words.Distance(name, near) <= 2 {
				layer.complaints.add(Complaint{Source: from.name, Reason: "is not a setting: " + words.Suggest(name, names, allSettings)})
			}
			continue
		}
		if t.f == nil {
			continue
		}
		earlier, twice := layer.values[dotted(t.path)]
		layer.take(t.f, t.path, written, from)
		if now := layer.values[dotted(t.path)]; twice && !reflect.DeepEqual(now.v, earlier.v) {
			layer.complain(from, t.path, "differs from what "+earlier.source.name+" says: unset one of them")
		}
	}
	return layer, layer.complaints.err()
}

// DefaultPaths returns where the daemon keeps its state and its socket by default, and
// where clients look for it. A path is empty if the environment does not even name a
// home.
func DefaultPaths(root bool, env func(string) string) (stateDir, socket string) {
	if root {
		return "/var/lib/berth", "/run/berth/berth.sock"
	}
	if base := absolute(env("XDG_STATE_HOME")); base != "" {
		stateDir = path.Join(base, "berth")
	} else if home := absolute(env("HOME")); home != "" {
		stateDir = path.Join(home, ".local/state/berth")
	}
	if base := absolute(env("XDG_RUNTIME_DIR")); base != "" {
		socket = path.Join(base, "berth/berth.sock")
	} else if stateDir != "" {
		socket = path.Join(stateDir, "berth.sock")
	}
	return stateDir, socket
}

// absolute drops relative paths, as the XDG rules require.
func absolute(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return ""
}
