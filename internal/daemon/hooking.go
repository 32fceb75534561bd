package daemon

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/hooks"
)

// hooking translates the hooks of the configuration, in the order of their
// names.
func hooking(c config.Config) []hooks.Hook {
	var list []hooks.Hook
	for _, name := range slices.Sorted(maps.Keys(c.Hooks)) {
		h := c.Hooks[name]
		hook := hooks.Hook{
			Name: name, URL: h.URL, Secret: h.Secret, Command: h.Command, Severity: gpu.Severity(h.Severity), Timeout: h.Timeout,
		}
		for _, code := range h.Codes {
			hook.Codes = append(hook.Codes, gpu.EventCode(code))
		}
		list = append(list, hook)
	}
	return list
}

// hookEnviron is the environment of commands: ours, without what is secret and
// without the socket on which systemd listens to us.
func hookEnviron(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"BERTH_TOKEN", "BERTH_DAEMON_TOKEN", "NOTIFY_SOCKET"}, name)
	})
}
