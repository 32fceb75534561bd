package config

import "path"

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
