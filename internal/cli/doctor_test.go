package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/client"
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

func TestDoctorHardware(t *testing.T) {
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
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &doctorOptions{root: tree(t, c.files)}
			hold(t, o.hardware(), c.want)
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

func TestDoctorSystem(t *testing.T) {
	o := &doctorOptions{root: t.TempDir()}
	hold(t, o.system(), []string{"ok Linux ", "broken /proc cannot be read"})
}

func TestDoctorUnit(t *testing.T) {
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
			o := &doctorOptions{root: tree(t, c.files)}
			hold(t, []Finding{o.unit()}, []string{c.want})
		})
	}
}

func TestDoctorStateDir(t *testing.T) {
	dir := t.TempDir()
	o := &doctorOptions{}
	hold(t, []Finding{o.stateDir(dir), o.stateDir(filepath.Join(dir, "a/b"))},
		[]string{"ok " + dir + ", ", "ok " + filepath.Join(dir, "a/b") + ", "})
	file := filepath.Join(tree(t, map[string]string{"f": ""}), "f")
	hold(t, []Finding{o.stateDir(filepath.Join(file, "below"))}, []string{"broken " + file})
}

func TestDoctorDaemonTrouble(t *testing.T) {
	at := func(err error) error {
		return &client.NoDaemonError{Attempts: []client.Attempt{{Network: "unix", Address: "/s", Err: err}}}
	}
	hold(t, []Finding{daemonTrouble(at(syscall.ENOENT)), daemonTrouble(at(syscall.EACCES)), daemonTrouble(errors.New("EOF"))},
		[]string{"note no daemon answers (/s: no such file or directory) → start one", "broken no daemon answers (/s: permission denied) → your user may not open /s",
			"broken it is there, but answers wrongly: EOF"})
}
