package drm_test

import (
	"os"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
	"github.com/berth-gpu/berth/internal/device/drm/drmtest"
)

func TestBadFiles(t *testing.T) {
	tree := drmtest.Lay(t)
	tree.Write("good", "42\n")
	tree.Write("empty", "")
	tree.Write("word", "N/A\n")
	tree.Write("huge", strings.Repeat("9", 5000))
	tree.Write("wide", "99999999999999999999\n")
	tree.Folder("folder")
	tree.Write("dangling", "-> nowhere")
	if n, err := drm.Number(tree.Path("good")); n != 42 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, name := range []string{"empty", "word", "huge", "wide", "folder", "dangling", "none"} {
		if n, err := drm.Number(tree.Path(name)); err == nil {
			t.Errorf("%s is %d", name, n)
		}
	}
	if text, err := drm.Text(tree.Path("huge")); err != nil || len(text) > 4096 {
		t.Errorf("%d characters, %v", len(text), err)
	}
	if os.Geteuid() != 0 {
		_ = os.Chmod(tree.Path("good"), 0)
		if _, err := drm.Number(tree.Path("good")); !drm.Denied(err) {
			t.Errorf("a file that may not be read: %v", err)
		}
	}
}

func TestCards(t *testing.T) {
	tree := drmtest.Lay(t)
	card := func(name, uevent string) { tree.Write("sys/class/drm/"+name+"/device/uevent", uevent) }
	card("card0", "DRIVER=amdgpu\nPCI_ID=1002:740F\nPCI_SLOT_NAME=0000:83:00.0\n")
	card("card1", "DRIVER=nouveau\nPCI_ID=10DE:2204\nPCI_SLOT_NAME=0000:03:00.0\n")
	card("card2", "DRIVER=amdgpu\nPCI_ID=1002:740F\nPCI_SLOT_NAME=0000:03:00.0\n")
	card("card3", "DRIVER=amdgpu_xcp\n")
	card("card4", "DRIVER=amdgpu\nPCI_ID=1002\nPCI_SLOT_NAME=0000:04:00.0\n")
	card("card5", "DRIVER=amdgpu\nPCI_ID=1002:740F\nPCI_SLOT_NAME=somewhere\n")
	card("card0-DP-1", "DRIVER=amdgpu\nPCI_ID=1002:740F\nPCI_SLOT_NAME=0000:01:00.0\n")
	tree.Folder("sys/class/drm/card6/device/uevent")
	cards := tree.Root().Cards("amdgpu")
	if len(cards) != 2 || cards[0].PCI != "0000:03:00.0" || cards[1].PCI != "0000:83:00.0" {
		t.Fatalf("%+v", cards)
	}
	c := cards[0]
	if c.Place() != "GPU-1002-740f-at-0000-03-00.0" || c.Integrated() || c.Gone() || c.NUMANode().Known() || c.RenderMinor() != -1 {
		t.Errorf("%+v: %s", c, c.Place())
	}
	tree.Write("sys/class/drm/card2/device/config", "hex: ff ff ff ff")
	if !c.Gone() {
		t.Error("a card that reads as ones is there")
	}
	tree.Remove("sys/class/drm/card0")
	if !cards[1].Gone() {
		t.Error("a card without files is there")
	}
	if found := drm.Root(t.TempDir()).Cards("amdgpu"); len(found) > 0 {
		t.Errorf("in an empty tree: %v", found)
	}
}

func TestSensors(t *testing.T) {
	tree := drmtest.Lay(t)
	dir := "sys/class/drm/card0/device/"
	tree.Write(dir+"uevent", "DRIVER=amdgpu\nPCI_ID=1002:740F\nPCI_SLOT_NAME=0000:83:00.0\n")
	c := tree.Root().Cards("amdgpu")[0]
	none := c.Sensors()
	if none.Temperature("input", "edge").Known() || none.Watts("power1_cap").Known() || none.Fan().Known() || none.Write("pwm1", 1) == nil {
		t.Error("a card without sensors has values")
	}
	tree.Write(dir+"hwmon/hwmon0/name", "other\n")
	tree.Write(dir+"hwmon/hwmon1/name", "amdgpu\n")
	for text, want := range map[string]gpu.Opt[gpu.Celsius]{
		"45500\n": gpu.Some(gpu.Celsius(45.5)), "0\n": gpu.Some(gpu.Celsius(0)), "-5000": gpu.Some(gpu.Celsius(-5)),
		"255000\n": {}, "-273000": {}, "hot": {}, "": {}, "9223372036854775807": {},
	} {
		tree.Write(dir+"hwmon/hwmon1/temp1_input", text)
		s := c.Sensors()
		if got := s.Temperature("input", "edge", "1"); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	s := c.Sensors()
	tree.Write(dir+"hwmon/hwmon1/power1_average", "-1")
	tree.Write(dir+"hwmon/hwmon1/power1_input", "12500000")
	if got := s.Watts("power1_average", "power1_input"); got != gpu.Some(gpu.Watts(12.5)) {
		t.Errorf("power is %v", got)
	}
	tree.Write(dir+"hwmon/hwmon1/fan1_input", "900")
	tree.Write(dir+"hwmon/hwmon1/fan1_max", "0")
	if s.Fan().Known() {
		t.Error("a fan without a full speed has a share of it")
	}
	tree.Write(dir+"hwmon/hwmon1/fan1_max", "3600")
	if got := s.Fan(); got != gpu.Some(gpu.Percent(25)) {
		t.Errorf("the fan is at %v", got)
	}
}
