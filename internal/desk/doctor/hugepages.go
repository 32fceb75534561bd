package doctor

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-gpu/berth/internal/enforce/park/hugepages"
)

// What huge pages do to the speed of parking, as measured on an H200 with programs of 16
// and 40 GiB.
const (
	smallPages = "programs are parked at 1.7 to 1.9 GiB/s and come back at 4 to 5"
	largePages = "2.4 to 2.9 and 5 to 7.3 GiB/s with always"
)

// hugePages says what the huge pages of the kernel, and the setting for them, cost. Only
// NVIDIA's driver parks.
func (d *Doctor) hugePages() []Finding {
	set, err := hugepages.Read(filepath.Join(d.Root, hugepages.Path))
	if _, driver := os.Stat(filepath.Join(d.Root, "proc/driver/nvidia/version")); err != nil || driver != nil || d.Misconfigured != nil {
		return nil
	}
	f := Finding{Topic: "huge pages", Grade: Fine}
	switch {
	case set == "always":
		f.Text = "always, so programs are parked as fast as the driver can"
	case d.Settings.Config.Optimization.HugePages != "while_moving":
		f.Text = set + ": " + smallPages + "; " + largePages + " (measured on an H200). optimization.huge_pages: while_moving has berth set it while memory moves"
	case d.unitExists() && !d.opensHugePages():
		return []Finding{{"huge pages", Notice, "optimization.huge_pages is while_moving, and the unit keeps the daemon from setting " + hugepages.Path,
			"copy deploy/systemd/berth.service.d/hugepages.conf to /etc/systemd/system/berth.service.d, then: sudo systemctl daemon-reload && sudo systemctl restart berth"}}
	default:
		f.Text = set + ", and always while berth moves memory: parking is about a third faster (measured on an H200); every program of the machine gets huge pages then, may take more memory by them, and may stand still for a moment while the kernel makes them"
	}
	return []Finding{f}
}

// unitExists reports whether systemd starts berth here.
func (d *Doctor) unitExists() bool {
	_, err := os.Stat(filepath.Join(d.Root, "run/systemd/system"))
	return err == nil && d.unitPath() != ""
}

// opensHugePages reports whether a drop-in of the unit opens the setting to the daemon.
func (d *Doctor) opensHugePages() bool {
	for _, dir := range unitDirs {
		files, _ := filepath.Glob(filepath.Join(d.Root, dir, "berth.service.d/*.conf")) // the pattern is right
		for _, file := range files {
			text, _ := os.ReadFile(file) // one that cannot be read opens nothing that is known of
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "ReadWritePaths=") && strings.Contains(line, hugepages.Path) {
					return true
				}
			}
		}
	}
	return false
}
