package process

import (
	"os"
	"path/filepath"
	"strings"
)

// unitFolders lists where systemd finds the files of its units, of the machine and of all
// users.
var unitFolders = []string{
	"/etc/systemd/system", "/run/systemd/system", "/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
	"/etc/systemd/user", "/run/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user",
}

// HasUnitFile reports whether systemd has the file of a service, so that the service can
// be started: nothing else shows a unit that does not run. The ending .service may be
// left out. HasUnitFile does not see units in the home of a user.
func HasUnitFile(name string) bool { return hasUnitFile(unitFolders, name) }

func hasUnitFile(folders []string, name string) bool {
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return false
	}
	if !strings.HasSuffix(name, ".service") {
		name += ".service"
	}
	files := []string{name}
	if template, _, instance := strings.Cut(name, "@"); instance {
		files = append(files, template+"@.service")
	}
	for _, folder := range folders {
		for _, file := range files {
			if _, err := os.Stat(filepath.Join(folder, file)); err == nil {
				return true
			}
		}
	}
	return false
}
