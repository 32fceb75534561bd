package daemon

import (
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/history/hooks"
)

// hooking translates the hooks of the configuration, in the order of their names.
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

// hookCalls returns a function that returns how to call a hook.
func hookCalls(web *hooks.Web, log *slog.Logger) func(hooks.Hook) hooks.Call {
	commands := hooks.Commands{
		Environ: hookEnviron(os.Environ()),
		Output:  func(hook, output string) { log.Info("a hook wrote something", "hook", hook, "output", output) },
	}
	return func(h hooks.Hook) hooks.Call {
		if h.URL != "" {
			return web.Call(h.URL, h.Secret)
		}
		return commands.Call(h.Name, h.Command)
	}
}

// hookEnviron returns the environment of commands: environ without secrets and without
// the socket on which systemd listens to the daemon.
func hookEnviron(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"BERTH_TOKEN", "BERTH_DAEMON_TOKEN", "NOTIFY_SOCKET"}, name)
	})
}
