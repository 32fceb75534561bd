package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process/kinship"
)

// rights examines what a daemon that this user starts could not see or do. A daemon that
// runs already may have other rights, so these findings are notes.
func (d *Doctor) rights() []Finding {
	found := d.ptrace()
	return append(append(found, d.scopes()...), d.logout()...)
}

const withoutPtrace = "without CAP_SYS_PTRACE, a daemon of this user sees neither the environment nor the open files of other users' processes, and cannot park them: their memory counts by descent and program alone"

// ptrace finds out whether a daemon could look into the processes of others, and keep
// those still that it parks.
func (d *Doctor) ptrace() []Finding {
	status, err := os.ReadFile(filepath.Join(d.Root, "proc/self/status"))
	if err != nil {
		return nil // /proc cannot be read, which is a finding of its own
	}
	scope, _ := os.ReadFile(filepath.Join(d.Root, "proc/sys/kernel/yama/ptrace_scope")) // none: the kernel has no such limit
	if strings.TrimSpace(string(scope)) == "3" {
		return []Finding{{"rights", Notice, "kernel.yama.ptrace_scope is 3, so nobody may keep a program still: berth cannot park",
			"set it to 2 or less in /etc/sysctl.d, and start the machine again"}}
	}
	if effective(string(status))&(1<<unix.CAP_SYS_PTRACE) != 0 {
		return []Finding{{Topic: "rights", Grade: Fine, Text: "CAP_SYS_PTRACE: the processes of all users can be looked into, and parked"}}
	}
	if d.UID == 0 {
		return []Finding{{"rights", Notice, withoutPtrace, "give it the right; a container gets it with --cap-add SYS_PTRACE"}}
	}
	return []Finding{{"rights", Notice, withoutPtrace, "run the daemon as root: sudo systemctl enable --now berth"}}
}

// effective returns the capabilities in force, as a file /proc/PID/status has them.
func effective(status string) uint64 {
	for line := range strings.Lines(status) {
		if digits, found := strings.CutPrefix(line, "CapEff:"); found {
			set, _ := strconv.ParseUint(strings.TrimSpace(digits), 16, 64) // 0: none is known
			return set
		}
	}
	return 0
}

// scopes says whether processes are in units, containers or scopes, by which leases find
// them.
func (d *Doctor) scopes() []Finding {
	text, err := os.ReadFile(filepath.Join(d.Root, "proc/self/cgroup"))
	switch {
	case err != nil:
		return []Finding{{"scopes", Notice, "control groups cannot be read, so leases with a unit or a scope find no processes", "mount them: mount -t cgroup2 none /sys/fs/cgroup"}}
	case len(kinship.ParseCgroups(string(text))) == 0:
		return []Finding{{Topic: "scopes", Grade: Fine, Text: "this process is in no unit and in no container, as where there is no systemd: berth allocate --unit and scopes find only processes that are in one"}}
	}
	return nil
}

// logout finds what ends the programs of users when they log out.
func (d *Doctor) logout() []Finding {
	if _, err := os.Stat(filepath.Join(d.Root, "run/systemd/system")); err != nil {
		return nil
	}
	if d.UID != 0 && d.User != "" {
		_, lingers := os.Stat(filepath.Join(d.Root, "var/lib/systemd/linger", d.User))
		_, own := os.Stat(filepath.Join(d.Root, d.Home, ".config/systemd/user/berth.service"))
		if own == nil && lingers != nil {
			return []Finding{{"logout", Notice, "your own berth.service ends when you log out", "let it stay: loginctl enable-linger " + d.User}}
		}
	}
	if where := d.killsAtLogout(); where != "" {
		return []Finding{{"logout", Notice, fmt.Sprintf("KillUserProcesses=yes in /%s: what users leave running ends when they log out, also under berth exec and nohup", where),
			"use berth submit, which goes on; or let a user stay: loginctl enable-linger USER"}}
	}
	return nil
}

// killsAtLogout returns the file by which logind ends the processes of users who log out,
// or "" if it does not. A later file counts.
func (d *Doctor) killsAtLogout() (where string) {
	files := []string{"etc/systemd/logind.conf"}
	for _, dir := range []string{"usr/lib/systemd/logind.conf.d", "etc/systemd/logind.conf.d"} {
		more, _ := filepath.Glob(filepath.Join(d.Root, dir, "*.conf")) // the pattern is right
		for _, path := range more {
			files = append(files, filepath.Join(dir, filepath.Base(path)))
		}
	}
	for _, file := range files {
		text, _ := os.ReadFile(filepath.Join(d.Root, file)) // none: it sets nothing
		for line := range strings.Lines(string(text)) {
			value, found := strings.CutPrefix(strings.TrimSpace(line), "KillUserProcesses=")
			if !found {
				continue
			}
			where = ""
			if value == "yes" || value == "true" || value == "on" || value == "1" {
				where = file
			}
		}
	}
	return where
}
