package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/words"
)

// maker describes how the GPUs of a vendor show themselves to the system.
type maker struct {
	name    string
	pci     string   // vendor id on the bus
	module  string   // folder that is there once the driver is loaded
	version string   // file with the driver's version
	files   []string // device files a process must be able to open
	install string   // what to do when the driver is not loaded
}

func makers() []maker {
	return []maker{
		{
			name: "NVIDIA", pci: "0x10de", module: "sys/module/nvidia", version: "proc/driver/nvidia/version",
			files:   []string{"dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia[0-9]*"},
			install: "install the NVIDIA driver and load it: sudo modprobe nvidia",
		},
		{
			name: "AMD", pci: "0x1002", module: "sys/module/amdgpu", version: "sys/module/amdgpu/version",
			files:   []string{"dev/kfd", "dev/dri/renderD*"},
			install: "load the driver: sudo modprobe amdgpu",
		},
	}
}

// hardware compares what is on the bus with what the drivers offer.
func (d *Doctor) hardware() []Finding {
	onBus := d.bus()
	var found []Finding
	for _, m := range makers() {
		driver, loaded := d.driver(m)
		if onBus[m.pci] == 0 && !loaded {
			continue
		}
		text := fmt.Sprintf("%s by %s", words.Count(onBus[m.pci], "GPU"), m.name)
		if !loaded {
			found = append(found, Finding{"hardware", Broken, text + ", but the driver is not loaded", d.withNouveau(m)})
			continue
		}
		found = append(found, Finding{Topic: "hardware", Grade: Fine, Text: text + ", driver " + driver}, d.access(m))
	}
	if len(found) == 0 {
		return []Finding{{"hardware", Notice, "there is no GPU on the PCI bus", "berth runs without one; to try it: berth serve --devices sim:4"}}
	}
	return found
}

// bus counts the graphics devices on the PCI bus by vendor. A device of class
// 03 is a display controller, which on servers drives no display.
func (d *Doctor) bus() map[string]int {
	counts := map[string]int{}
	devices, _ := filepath.Glob(filepath.Join(d.Root, "sys/bus/pci/devices/*"))
	for _, device := range devices {
		if strings.HasPrefix(oneLine(filepath.Join(device, "class")), "0x03") {
			counts[oneLine(filepath.Join(device, "vendor"))]++
		}
	}
	return counts
}

// versionNumber matches a version. It is compiled when it is needed: every
// command would wait for it.
var versionNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b\d+\.\d+(\.\d+)*\b`) })

// driver reports whether the kernel driver is loaded, and its version. A driver
// that is part of the kernel has the kernel's.
func (d *Doctor) driver(m maker) (version string, loaded bool) {
	_, err := os.Stat(filepath.Join(d.Root, m.module))
	text := oneLine(filepath.Join(d.Root, m.version))
	if err != nil && text == "" {
		return "", false
	}
	if version = versionNumber().FindString(text); version == "" {
		version = "of the kernel"
	}
	return version, true
}

// withNouveau adds the usual reason why the driver does not load.
func (d *Doctor) withNouveau(m maker) string {
	if _, err := os.Stat(filepath.Join(d.Root, "sys/module/nouveau")); err == nil && m.name == "NVIDIA" {
		return "nouveau has the GPU: block it (blacklist nouveau in /etc/modprobe.d), then " + m.install
	}
	return m.install
}

// access examines whether the device files can be opened.
func (d *Doctor) access(m maker) Finding {
	there := 0
	for _, pattern := range m.files {
		paths, _ := filepath.Glob(filepath.Join(d.Root, pattern))
		for _, path := range paths {
			there++
			if err := unix.Access(path, unix.R_OK|unix.W_OK); err != nil {
				return Finding{"access", Broken, fmt.Sprintf("your user may not open %s: %v", strings.TrimPrefix(path, strings.TrimSuffix(d.Root, "/")), err),
					"join the group that owns it (video or render), and log in again"}
			}
		}
	}
	if there == 0 {
		return Finding{"access", Notice, "there are no device files for " + m.name,
			"in a container, pass the GPUs in (--gpus all); elsewhere, run nvidia-smi once as root, which makes them"}
	}
	return Finding{Topic: "access", Grade: Fine, Text: "the device files can be opened"}
}

// oneLine returns the first line of a small file; empty if there is none.
func oneLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}
