package drm

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/berth-gpu/berth/gpu"
)

// Card is a graphics card on the PCI bus that has a driver.
type Card struct {
	Dir      string   // its directory in /sys/class/drm
	Device   string   // the directory of the PCI device
	Driver   string   // amdgpu, i915 or xe
	PCI      string   // its address, such as 0000:03:00.0
	Vendor   string   // on the bus, four hexadecimal digits
	Model    string   // on the bus, four hexadecimal digits
	Revision string   // on the bus, two hexadecimal digits
	Nodes    []string // its device files: /dev/dri/card0, /dev/dri/renderD128
}

// Cards returns the cards with one of the drivers, in the order of their addresses.
func (r Root) Cards(drivers ...string) []Card {
	dirs, _ := filepath.Glob(r.Path("sys/class/drm/card*"))
	var cards []Card
	for _, dir := range dirs {
		if !numbered(filepath.Base(dir), "card") {
			continue // a connector such as card0-DP-1
		}
		if c, ok := readCard(dir); ok && slices.Contains(drivers, c.Driver) {
			cards = append(cards, c)
		}
	}
	slices.SortFunc(cards, func(a, b Card) int { return cmp.Compare(a.PCI, b.PCI) })
	return slices.CompactFunc(cards, func(a, b Card) bool { return a.PCI == b.PCI })
}

func numbered(name, prefix string) bool {
	digits, ok := strings.CutPrefix(name, prefix)
	return ok && digits != "" && strings.IndexFunc(digits, func(c rune) bool { return !unicode.IsDigit(c) }) < 0
}

// readCard reads the identity of a card. It reports false if the card is not on the PCI
// bus.
func readCard(dir string) (Card, bool) {
	c := Card{Dir: dir, Device: filepath.Join(dir, "device")}
	text, err := Text(c.Device, "uevent")
	if err != nil {
		return c, false
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "DRIVER":
			c.Driver = value
		case "PCI_SLOT_NAME":
			c.PCI = strings.ToLower(value)
		case "PCI_ID":
			c.Vendor, c.Model, _ = strings.Cut(strings.ToLower(value), ":")
		}
	}
	if revision, err := Text(c.Device, "revision"); err == nil {
		c.Revision = strings.TrimPrefix(strings.ToLower(revision), "0x")
	}
	nodes, _ := filepath.Glob(filepath.Join(c.Device, "drm/*"))
	for _, node := range nodes {
		if name := filepath.Base(node); numbered(name, "card") || numbered(name, "renderD") {
			c.Nodes = append(c.Nodes, "/dev/dri/"+name)
		}
	}
	return c, isAddress(c.PCI) && len(c.Vendor) == 4 && len(c.Model) == 4
}

// isAddress reports whether a text has the form of a PCI address.
func isAddress(text string) bool {
	const form = "0000:00:00.0"
	if len(text) < len(form) {
		return false
	}
	for i, c := range []byte(text[len(text)-len(form):]) {
		hex := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
		if f := form[i]; f == '0' && !hex || f != '0' && c != f {
			return false
		}
	}
	return true
}

// Render returns the device file that programs compute through, or the empty string.
func (c *Card) Render() string {
	for _, node := range c.Nodes {
		if strings.Contains(node, "renderD") {
			return node
		}
	}
	return ""
}

// RenderMinor returns the number of that file, or -1.
func (c *Card) RenderMinor() int {
	n, err := strconv.Atoi(strings.TrimPrefix(c.Render(), "/dev/dri/renderD"))
	if err != nil {
		return -1
	}
	return n
}

// Place returns a name for a card whose driver tells no serial number: its model and its
// address. The name changes if the card moves to another slot.
func (c *Card) Place() string {
	return "GPU-" + c.Vendor + "-" + c.Model + "-at-" + strings.ReplaceAll(c.PCI, ":", "-")
}

// Integrated reports whether a card is part of the processor: it is then on the first
// bus, beside the memory controller.
func (c *Card) Integrated() bool { return strings.HasPrefix(c.PCI, "0000:00:") }

// Gone reports whether the card has left the bus. A card that was pulled out has no
// files; one that fell off may still have them, but its configuration reads as ones.
func (c *Card) Gone() bool {
	if !Exists(c.Device, "uevent") {
		return true
	}
	var vendor [2]byte
	text, err := Read(filepath.Join(c.Device, "config"), vendor[:])
	return err == nil && len(text) == 2 && vendor == [2]byte{0xff, 0xff}
}

// NUMANode returns the node whose memory is nearest. It is absent on machines
// with one node, where the kernel says -1.
func (c *Card) NUMANode() gpu.Opt[int] {
	node, err := Number(c.Device, "numa_node")
	if err != nil || node < 0 || node > 1<<16 {
		return gpu.Opt[int]{}
	}
	return gpu.Some(int(node))
}

// DriverVersion returns the version of the driver, or that of the kernel, which the
// driver is a part of.
func (r Root) DriverVersion(driver string) string {
	if version, err := Text(r.Path("sys/module", driver, "version")); err == nil && version != "" {
		return gpu.Printable(version, 64)
	}
	release, err := Text(r.Path("proc/sys/kernel/osrelease"))
	if err != nil || release == "" {
		return ""
	}
	return gpu.Printable("Linux "+release, 64)
}
