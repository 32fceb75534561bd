package doctor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/gpu/maker"
	"github.com/berth-gpu/berth/internal/text/words"
)

// hardware compares what is on the bus with what the drivers offer.
func (d *Doctor) hardware() []Finding {
	onBus := d.bus()
	var found []Finding
	for _, m := range maker.All() {
		driver, loaded := d.driver(&m)
		if onBus[m.PCI] == 0 && (!loaded || m.Vendor == gpu.Intel) { // Intel's drivers are also for processors
			continue
		}
		text := fmt.Sprintf("%s by %s", words.Count(onBus[m.PCI], "GPU"), m.Label)
		if !loaded {
			found = append(found, Finding{"hardware", Broken, text + ", but the driver is not loaded", d.withNouveau(&m)})
			continue
		}
		found = append(found, Finding{Topic: "hardware", Grade: Fine, Text: text + ", driver " + driver}, d.access(&m))
	}
	if len(found) == 0 {
		return []Finding{{"hardware", Notice, "there is no GPU on the PCI bus", "berth runs without one; to try it: berth serve --devices sim:4"}}
	}
	return append(found, d.links()...)
}

// gpus returns the folders of the GPUs on the PCI bus. Class 03 is a display controller,
// which on servers drives no display, and class 12 an accelerator. An Intel device on the
// first bus is part of the processor.
func (d *Doctor) gpus() []string {
	devices, _ := filepath.Glob(filepath.Join(d.Root, "sys/bus/pci/devices/*"))
	return slices.DeleteFunc(devices, func(device string) bool {
		class, vendor := oneLine(filepath.Join(device, "class")), oneLine(filepath.Join(device, "vendor"))
		known := slices.ContainsFunc(maker.All(), func(m maker.Maker) bool { return m.PCI == vendor })
		return !strings.HasPrefix(class, "0x03") && !(strings.HasPrefix(class, "0x12") && known) ||
			vendor == "0x8086" && strings.HasPrefix(filepath.Base(device), "0000:00:")
	})
}

// bus counts the GPUs on the PCI bus by vendor.
func (d *Doctor) bus() map[string]int {
	counts := map[string]int{}
	for _, device := range d.gpus() {
		counts[oneLine(filepath.Join(device, "vendor"))]++
	}
	return counts
}

// links reports GPUs that have fewer lanes to the processor than they could use: copies
// to them are slower.
func (d *Doctor) links() []Finding {
	var found []Finding
	for _, device := range d.gpus() {
		now, err := strconv.Atoi(oneLine(filepath.Join(device, "current_link_width")))
		most, err2 := strconv.Atoi(oneLine(filepath.Join(device, "max_link_width")))
		if err == nil && err2 == nil && now > 0 && now < most {
			found = append(found, Finding{"hardware", Notice,
				fmt.Sprintf("the GPU at %s has %d of the %d PCIe lanes that it could use", filepath.Base(device), now, most),
				"copies to it are slower; see whether the card sits firmly, in a slot with all lanes"})
		}
	}
	return found
}

// versionNumber matches a version. It is compiled when needed, because otherwise every
// command would wait for it.
var versionNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b\d+\.\d+(\.\d+)*\b`) })

// driver reports whether the kernel driver is loaded, and its version. A driver that is
// part of the kernel has the version of the kernel.
func (d *Doctor) driver(m *maker.Maker) (version string, loaded bool) {
	there := slices.ContainsFunc(m.Modules, func(module string) bool {
		_, err := os.Stat(filepath.Join(d.Root, module))
		return err == nil
	})
	text := ""
	if m.Version != "" {
		text = oneLine(filepath.Join(d.Root, m.Version))
	}
	if !there && text == "" {
		return "", false
	}
	return cmp.Or(versionNumber().FindString(text), "of the kernel"), true
}

// withNouveau returns what to do when the driver is not loaded, with the usual reason.
func (d *Doctor) withNouveau(m *maker.Maker) string {
	if _, err := os.Stat(filepath.Join(d.Root, "sys/module/nouveau")); err == nil && m.Vendor == gpu.NVIDIA {
		return "nouveau has the GPU: block it (blacklist nouveau in /etc/modprobe.d), then " + m.Install
	}
	return m.Install
}

// access examines whether the device files can be opened.
func (d *Doctor) access(m *maker.Maker) Finding {
	there := 0
	for _, pattern := range m.Files {
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
		return Finding{"access", Notice, "there are no device files for " + m.Label, m.Absent}
	}
	return Finding{Topic: "access", Grade: Fine, Text: "the device files can be opened"}
}

// oneLine returns the first line of a small file, or "" if it cannot be read.
func oneLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}
