package doctor

import "testing"

const (
	allCaps  = "Name:\tberth\nCapEff:\t000001ffffffffff\n"
	noPtrace = "Name:\tberth\nCapEff:\t00000000a80425fb\n" // as docker run gives them
	inUnit   = "0::/system.slice/ssh.service\n"

	noteOfPtrace = "note " + withoutPtrace + " → "
)

func TestRights(t *testing.T) {
	for _, c := range []struct {
		name  string
		uid   int
		files map[string]string
		want  []string
	}{
		{"root", 0, map[string]string{"proc/self/status": allCaps, "proc/self/cgroup": inUnit}, []string{"ok CAP_SYS_PTRACE"}},
		{"root in a container", 0, map[string]string{"proc/self/status": noPtrace, "proc/self/cgroup": "0::/\n"},
			[]string{noteOfPtrace + "give it the right; a container gets it with --cap-add SYS_PTRACE", "ok this process is in no unit"}},
		{"a user", 1000, map[string]string{"proc/self/status": "CapEff:\t0\n", "proc/self/cgroup": inUnit},
			[]string{noteOfPtrace + "run the daemon as root"}},
		{"nobody may", 0, map[string]string{"proc/self/status": allCaps, "proc/self/cgroup": inUnit, "proc/sys/kernel/yama/ptrace_scope": "3\n"},
			[]string{"note kernel.yama.ptrace_scope is 3"}},
		{"no control groups", 0, map[string]string{"proc/self/status": allCaps}, []string{"ok CAP_SYS_PTRACE", "note control groups cannot be read"}},
		{"an own unit that ends at logout", 1000, map[string]string{
			"proc/self/status": allCaps, "proc/self/cgroup": inUnit, "run/systemd/system/x": "", "home/ada/.config/systemd/user/berth.service": "",
		}, []string{"ok CAP_SYS_PTRACE", "note your own berth.service ends when you log out → let it stay: loginctl enable-linger ada"}},
		{"an own unit that stays", 1000, map[string]string{
			"proc/self/status": allCaps, "proc/self/cgroup": inUnit, "run/systemd/system/x": "", "home/ada/.config/systemd/user/berth.service": "", "var/lib/systemd/linger/ada": "",
		}, []string{"ok CAP_SYS_PTRACE"}},
		{"logind ends what is left", 0, map[string]string{
			"proc/self/status": allCaps, "proc/self/cgroup": inUnit, "run/systemd/system/x": "", "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n",
		}, []string{"ok CAP_SYS_PTRACE", "note KillUserProcesses=yes in /etc/systemd/logind.conf"}},
		{"a later file counts", 0, map[string]string{
			"proc/self/status": allCaps, "proc/self/cgroup": inUnit, "run/systemd/system/x": "", "etc/systemd/logind.conf": "KillUserProcesses=yes\n",
			"etc/systemd/logind.conf.d/10-stay.conf": "KillUserProcesses=no\n",
		}, []string{"ok CAP_SYS_PTRACE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &Doctor{Root: tree(t, c.files), UID: c.uid, User: "ada", Home: "/home/ada"}
			hold(t, d.rights(), c.want)
		})
	}
}
