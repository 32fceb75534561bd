package process

import (
	"os"
	"path/filepath"
	"strings"
)

// unitFolders are where systemd finds the files of its units, of the machine and
// of all users.
var unitFolders = []string{
	"/etc/systemd/system", "/run/systemd/system", "/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
	"/etc/systemd/user", "/run/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user",
}

// HasUnitFile reports whether systemd has the file of a service, so that it can
// be started: a unit that does not run has nothing else that shows it. The ending
// .service may be left out. Units in the home of a user are not seen.
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
