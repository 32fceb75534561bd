package drm

import (
	"bufio"
	"os"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// The lists of names that distributions install. Name reads them when a card is first
// seen.
var (
	pciLists = []string{"usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids"}
	amdLists = []string{"usr/share/libdrm/amdgpu.ids"}
)

// Name returns the name of a card from the lists of this machine, or the empty string.
func (r Root) Name(c *Card) string {
	for _, list := range amdLists {
		if name := find(r.Path(list), c.amdName); name != "" {
			return name
		}
	}
	for _, list := range pciLists {
		if name := find(r.Path(list), c.pciName()); name != "" {
			return name
		}
	}
	return ""
}

// find returns the first name that match finds in a line of a file.
func find(path string, match func(line string) string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name := match(lines.Text()); name != "" {
			return gpu.Printable(name, 128)
		}
	}
	return ""
}

// amdName reads a line of amdgpu.ids: "73BF, C1, AMD Radeon RX 6800 XT".
func (c *Card) amdName(line string) string {
	parts := strings.SplitN(line, ",", 3)
	if len(parts) < 3 || c.Vendor != "1002" || !strings.EqualFold(strings.TrimSpace(parts[0]), c.Model) ||
		!strings.EqualFold(strings.TrimSpace(parts[1]), c.Revision) {
		return ""
	}
	return strings.TrimSpace(parts[2])
}

// pciName returns a reader of pci.ids, which indents the models of a vendor below it:
// "\t56a0  DG2 [Arc A770]". People know the name in brackets.
func (c *Card) pciName() func(string) string {
	ours := false
	return func(line string) string {
		if len(line) > 0 && line[0] != '\t' && line[0] != '#' {
			ours = strings.HasPrefix(line, c.Vendor+" ")
			return ""
		}
		name, found := strings.CutPrefix(line, "\t"+c.Model+" ")
		if !ours || !found {
			return ""
		}
		name = strings.TrimSpace(name)
		if _, known, ok := strings.Cut(name, "["); ok {
			return strings.TrimSuffix(known, "]")
		}
		return name
	}
}
