package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
)

// tree makes a small system: files with their content, folders where there is
// none.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	bus0      = "sys/bus/pci/devices/0000:01:00.0/"
	bus1      = "sys/bus/pci/devices/0000:02:00.0/"
	driver580 = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC version: 12.2.0\n"
)

func TestHardware(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string // grade, and the beginning of the text or of the next step
	}{
		{"nothing", nil, []string{"note there is no GPU on the PCI bus"}},
		{"only a display of the board", map[string]string{bus0 + "vendor": "0x1a03\n", bus0 + "class": "0x030000\n"},
			[]string{"note there is no GPU on the PCI bus"}},
		{"no driver", map[string]string{bus0 + "vendor": "0x10de\n", bus0 + "class": "0x030200\n"},
			[]string{"broken 1 GPU by NVIDIA, but the driver is not loaded → install the NVIDIA driver"}},
		{"nouveau", map[string]string{bus0 + "vendor": "0x10de\n", bus0 + "class": "0x030000\n", "sys/module/nouveau/x": ""},
			[]string{"broken 1 GPU by NVIDIA, but the driver is not loaded → nouveau has the GPU"}},
		{"all there", map[string]string{
			bus0 + "vendor": "0x10de\n", bus0 + "class": "0x030200\n", bus1 + "vendor": "0x10de\n", bus1 + "class": "0x030200\n",
			"proc/driver/nvidia/version": driver580, "dev/nvidiactl": "", "dev/nvidia0": "", "dev/nvidia1": "",
		}, []string{"ok 2 GPUs by NVIDIA, driver 580.65.06", "ok the device files can be opened"}},
		{"not passed into the container", map[string]string{
			bus0 + "vendor": "0x10de\n", bus0 + "class": "0x030200\n", "proc/driver/nvidia/version": driver580,
		}, []string{"ok 1 GPU by NVIDIA, driver 580.65.06", "note there are no device files for NVIDIA → in a container"}},
		{"AMD", map[string]string{
			bus0 + "vendor": "0x1002\n", bus0 + "class": "0x038000\n", "sys/module/amdgpu/x": "", "dev/kfd": "",
		}, []string{"ok 1 GPU by AMD, driver of the kernel", "ok the device files can be opened"}},
		{"an accelerator with too few lanes", map[string]string{
			bus0 + "vendor": "0x1002\n", bus0 + "class": "0x120000\n", bus0 + "current_link_width": "8\n", bus0 + "max_link_width": "16\n",
			"sys/module/amdgpu/version": "6.10.5\n",
		}, []string{"ok 1 GPU by AMD, driver 6.10.5", "note there are no device files for AMD → in a container", "note the GPU at 0000:01:00.0 has 8 of the 16 PCIe lanes"}},
		{"Intel", map[string]string{
			bus0 + "vendor": "0x8086\n", bus0 + "class": "0x030000\n", "sys/module/xe/x": "", "dev/dri/renderD128": "",
		}, []string{"ok 1 GPU by Intel, driver of the kernel", "ok the device files can be opened"}},
		{"Intel's processor", map[string]string{
			"sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n", "sys/bus/pci/devices/0000:00:02.0/class": "0x030000\n", "sys/module/i915/x": "",
		}, []string{"note there is no GPU on the PCI bus"}},
		{"Intel without a driver", map[string]string{bus0 + "vendor": "0x8086\n", bus0 + "class": "0x038000\n"},
			[]string{"broken 1 GPU by Intel, but the driver is not loaded → load the driver: sudo modprobe xe"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &Doctor{Root: tree(t, c.files)}
			hold(t, d.hardware(), c.want)
		})
	}
}

func hold(t *testing.T, found []Finding, want []string) {
	t.Helper()
	var got []string
	for _, f := range found {
		text := string(f.Grade) + " " + f.Text
		if f.Next != "" {
			text += " → " + f.Next
		}
		got = append(got, text)
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestSystem(t *testing.T) {
	d := &Doctor{Root: t.TempDir()}
	hold(t, d.system(), []string{"ok Linux ", "broken /proc cannot be read"})
}

func TestUnit(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no systemd", nil, "ok not running here"},
		{"no unit", map[string]string{"run/systemd/system/x": ""}, "note there is no berth.service"},
		{"not enabled", map[string]string{"run/systemd/system/x": "", "usr/lib/systemd/system/berth.service": ""},
			"note /usr/lib/systemd/system/berth.service is not enabled"},
		{"enabled", map[string]string{"run/systemd/system/x": "", "etc/systemd/system/berth.service": "",
			"etc/systemd/system/multi-user.target.wants/berth.service": ""}, "ok /etc/systemd/system/berth.service is enabled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &Doctor{Root: tree(t, c.files)}
			hold(t, []Finding{d.unit()}, []string{c.want})
		})
	}
}

func TestHugePages(t *testing.T) {
	const kernel, driver, unit = "sys/kernel/mm/transparent_hugepage/enabled", "proc/driver/nvidia/version", "usr/lib/systemd/system/berth.service"
	const dropIn = "etc/systemd/system/berth.service.d/hugepages.conf"
	shipped, err := os.ReadFile("../../../deploy/systemd/berth.service.d/hugepages.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		setting string
		files   map[string]string
		want    []string
	}{
		{"no such setting", "leave", map[string]string{driver: driver580}, nil},
		{"no driver that parks", "leave", map[string]string{kernel: "always [madvise] never\n"}, nil},
		{"always", "leave", map[string]string{driver: driver580, kernel: "[always] madvise never\n"}, []string{"ok always, so"}},
		{"left", "leave", map[string]string{driver: driver580, kernel: "always [madvise] never\n"}, []string{"ok madvise: programs are parked at 1.7 to 1.9 GiB/s and come back at 4 to 5; 2.4 to 2.9"}},
		{"while moving", "while_moving", map[string]string{driver: driver580, kernel: "always madvise [never]\n"}, []string{"ok never, and always while berth moves memory: parking is about a third faster"}},
		{"the unit forbids it", "while_moving", map[string]string{driver: driver580, kernel: "always [madvise] never\n", "run/systemd/system/x": "", unit: "", dropIn: "# no " + kernel},
			[]string{"note optimization.huge_pages is while_moving, and the unit keeps the daemon from setting /" + kernel + " → copy deploy/systemd/berth.service.d/hugepages.conf"}},
		{"a drop-in opens it", "while_moving", map[string]string{driver: driver580, kernel: "always [madvise] never\n", "run/systemd/system/x": "", unit: "", dropIn: string(shipped)},
			[]string{"ok madvise, and always while"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := &config.Settings{Config: config.Config{Optimization: config.Optimization{HugePages: c.setting}}}
			hold(t, (&Doctor{Root: tree(t, c.files), Settings: settings}).hugePages(), c.want)
		})
	}
}

func TestJobs(t *testing.T) {
	const v2 = "cpuset cpu io memory pids\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"systemd", map[string]string{"run/systemd/private": "", "sys/fs/cgroup/cgroup.controllers": v2}, []string{"ok systemd starts each"}},
		{"systemd without controllers", map[string]string{"run/systemd/private": "", "sys/fs/cgroup/memory/x": "", "sys/fs/cgroup/unified/cgroup.controllers": "cpu\n"},
			[]string{"ok systemd starts each", "note --cpus and --host-memory are refused: there is no controller for memory → start the kernel"}},
		{"no systemd", map[string]string{"sys/fs/cgroup/cgroup.controllers": v2}, []string{"ok there is no systemd"}},
		{"no systemd, cgroup v1", map[string]string{"sys/fs/cgroup/memory/x": "", "sys/fs/cgroup/cpu/x": ""}, []string{"ok there is no systemd"}},
		{"nothing", nil, []string{"ok there is no systemd", "note --cpus and --host-memory are refused: there is no controller for cpu and memory → mount"}},
	} {
		t.Run(c.name, func(t *testing.T) { hold(t, (&Doctor{Root: tree(t, c.files)}).jobs(), c.want) })
	}
}

func TestFrontAccount(t *testing.T) {
	for _, c := range []struct {
		yaml string
		uid  int
		want []string
	}{
		{"front: {listen: '127.0.0.1:80', user: no-such-user}", 0, []string{"broken there is no user no-such-user, so no front can run"}},
		{"services: {a: {command: a, user: b}}\nfront: {user: no-such-user}", 0, []string{"broken there is no user no-such-user, so no front can run"}},
		{"front: {listen: '127.0.0.1:80', user: root}", 0, nil}, // the daemon refuses it
		{"front: {listen: '127.0.0.1:80', user: no-such-user}", 1000, nil},
		{"front: {user: no-such-user}", 0, nil},
	} {
		layer, _ := config.ParseYAML("berth.yaml", []byte(c.yaml))
		settings, err := config.Merge(layer)
		if err != nil {
			t.Fatal(err)
		}
		hold(t, (&Doctor{UID: c.uid, Settings: settings}).frontAccount(), c.want)
	}
}

func TestStateDir(t *testing.T) {
	dir := t.TempDir()
	hold(t, []Finding{stateDir(dir), stateDir(filepath.Join(dir, "a/b"))},
		[]string{"ok " + dir + ", ", "ok " + filepath.Join(dir, "a/b") + ", "})
	file := filepath.Join(tree(t, map[string]string{"f": ""}), "f")
	hold(t, []Finding{stateDir(filepath.Join(file, "below"))}, []string{"broken " + file})
}

func TestTrouble(t *testing.T) {
	at := func(err error) error {
		return &client.NoDaemonError{Attempts: []client.Attempt{{Network: "unix", Address: "/s", Err: err}}}
	}
	hold(t, []Finding{trouble(at(syscall.ENOENT)), trouble(at(syscall.EACCES)), trouble(errors.New("EOF"))},
		[]string{"note no daemon answers (/s: no such file or directory) → start one", "broken no daemon answers (/s: permission denied) → your user may not open /s",
			"broken it is there, but answers wrongly: EOF"})
}

// answers is a daemon that answers as a test wants.
type answers struct {
	status  api.StatusAll
	leases  api.Leases
	strays  api.Strays
	ready   api.Ready
	missing error // for every question
	unready error
	serves  api.Services
}

func (a *answers) Services(context.Context) (api.Services, error) { return a.serves, a.missing }

func (a *answers) StatusAll(context.Context) (api.StatusAll, error) { return a.status, a.missing }
func (a *answers) Leases(context.Context) (api.Leases, error)       { return a.leases, a.missing }
func (a *answers) Orphans(context.Context) (api.Strays, error)      { return a.strays, a.missing }
func (a *answers) Ready(context.Context) (api.Ready, error) {
	return a.ready, errors.Join(a.missing, a.unready)
}

func TestDaemon(t *testing.T) {
	hot := api.Status{Device: gpu.Device{Index: 1}, State: gpu.Throttled, Reason: "81 °C is above temp_normal"}
	shut := api.Status{Device: gpu.Device{Index: 2}, State: gpu.Unavailable, Health: gpu.Unhealthy, Reason: "it is in quarantine", Trust: &api.Trust{Phase: "quarantine"}}
	for _, c := range []struct {
		name   string
		daemon answers
		want   []string
	}{
		{"all well", answers{status: api.StatusAll{Version: "1", Monitoring: true, GPUs: []api.Status{{State: gpu.Optimal}}}, leases: api.Leases{Leases: make([]api.Lease, 2)}},
			[]string{"ok runs, version 1, 1 GPU", "ok 2 leases, 0 waiting", "ok can be written"}},
		{"another version", answers{status: api.StatusAll{Version: "0", Monitoring: true}},
			[]string{"note runs, version 0, 0 GPUs; this command is version 1 → restart the daemon", "ok 0 leases", "ok can be written"}},
		{"devices that are not well", answers{status: api.StatusAll{Version: "1", Monitoring: true, GPUs: []api.Status{hot, shut}}},
			[]string{"ok runs", "ok 0 leases", "ok can be written", "note GPU 1 is THROTTLED: 81 °C", "note GPU 2 is UNAVAILABLE: it is in quarantine"}},
		{"orphans, and monitoring stopped", answers{status: api.StatusAll{Version: "1"}, strays: api.Strays{Orphans: make([]api.Stray, 1)}},
			[]string{"ok runs", "ok 0 leases", "ok can be written", "note 1 orphan: ", "note it is stopped"}},
		{"a journal that cannot be written", answers{status: api.StatusAll{Version: "1", Monitoring: true}, unready: errors.New("the disk is full")},
			[]string{"ok runs", "ok 0 leases", "broken the disk is full → make room"}},
		{"in a container", answers{status: api.StatusAll{Version: "1", Monitoring: true}, ready: api.Ready{Text: "Ready, with limits. Processes of the host are not seen."}},
			[]string{"ok runs", "ok 0 leases", "ok can be written", "note Processes of the host are not seen. → berth help access"}},
		{"services", answers{status: api.StatusAll{Version: "1", Monitoring: true}, serves: api.Services{
			Services: []api.Service{{Name: "red", State: "ready"}, {Name: "blue", State: "failed", Failure: &api.ServiceFailure{Count: 3, Why: "it was not ready"}}}, Front: &api.FrontState{Listen: "127.0.0.1:0", Address: "127.0.0.1:8080"},
		}}, []string{"ok runs", "ok 0 leases", "ok can be written", "ok takes requests for services on 127.0.0.1:8080", "note blue has failed 3 times: it was not ready → look at its log: berth logs blue", "ok 2 services with a program, 1 ready"}},
		{"a front without its address", answers{status: api.StatusAll{Version: "1", Monitoring: true}, serves: api.Services{Front: &api.FrontState{Listen: "127.0.0.1:80", Why: "another program has it"}}},
			[]string{"ok runs", "ok 0 leases", "ok can be written", "broken takes no requests for services on 127.0.0.1:80: another program has it → berth events --code front"}},
		{"a damaged state file", answers{status: api.StatusAll{Version: "1", Monitoring: true}, ready: api.Ready{Damaged: []string{"drains.json.damaged-1"}}},
			[]string{"ok runs", "ok 0 leases", "ok can be written", "note a state file was damaged and is kept as drains.json.damaged-1 → berth events --code state_damaged"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &Doctor{Version: "1", Daemon: &c.daemon}
			running, found := d.daemon(t.Context())
			if hold(t, found, c.want); !running {
				t.Error("it does not run")
			}
		})
	}
}

// A daemon that runs knows its state folder better than the configuration here.
func TestShortToken(t *testing.T) {
	for secret, want := range map[string]int{"": 0, "hush": 1, strings.Repeat("x", 31): 1, strings.Repeat("x", 32): 0} {
		if got := shortToken(secret); len(got) != want {
			t.Errorf("%q: %v", secret, got)
		}
	}
}

func TestExamine(t *testing.T) {
	daemon := &answers{status: api.StatusAll{Version: "1", Monitoring: true}}
	settings, err := config.Merge(config.Paths(t.TempDir(), "/run/berth.sock"))
	if err != nil {
		t.Fatal(err)
	}
	d := &Doctor{Root: t.TempDir(), Version: "1", Daemon: daemon, Probed: []Finding{{Topic: "nvml", Grade: Notice}}, Settings: settings}
	topics := func() string {
		var list []string
		for _, f := range d.Examine(t.Context()) {
			list = append(list, f.Topic)
		}
		return strings.Join(list, " ")
	}
	if got, want := topics(), "system processes hardware nvml config daemon leases journal systemd scopes jobs jobs"; got != want {
		t.Errorf("with a daemon it examines %s, want %s", got, want)
	}
	daemon.missing = &client.NoDaemonError{}
	if got, want := topics(), "system processes hardware nvml config daemon state journal audit systemd scopes jobs jobs"; got != want {
		t.Errorf("without a daemon it examines %s, want %s", got, want)
	}
	d.Settings, d.Misconfigured = nil, errors.New("berth.yaml:1: no")
	if got, want := topics(), "system processes hardware nvml config daemon systemd scopes jobs jobs"; got != want {
		t.Errorf("without a configuration it examines %s, want %s", got, want)
	}
	if found := d.Examine(t.Context()); Count(found, Broken) != 2 || Count(found, Notice) != 5 { // /proc and config; hardware, nvml, daemon, scopes and jobs
		t.Errorf("%d broken and %d notes: %+v", Count(found, Broken), Count(found, Notice), found)
	}
}
