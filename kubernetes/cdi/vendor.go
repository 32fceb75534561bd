package cdi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/gpu/maker"
)

// maxFile is the largest size of a vendor's file to read.
const maxFile = 16 << 20

// Vendor returns the name of a device for a container runtime, from the vendor's own
// files. Its error says what to install. A simulated device needs no file: its name is
// empty.
func (f Folder) Vendor(d gpu.Device) (string, error) {
	if d.Vendor == gpu.Simulated || d.Backend == "sim" {
		return "", nil
	}
	m := maker.Of(d.Vendor)
	if m == nil {
		return "", fmt.Errorf("find the CDI device of %s (%s): berth does not know the CDI files of vendor %q; start the driver with --isolation env", d.Label(), d.UUID, string(d.Vendor))
	}
	found, broken := f.specs(m.CDI)
	if id := match(found, d); id != "" {
		return id, nil
	}
	detail := "no file has it"
	if len(found) > 0 {
		detail = "the files of the vendor do not have it: " + strings.Join(listed(found), ", ")
	}
	if broken != nil {
		detail += "; " + gpu.Printable(broken.Error(), 300)
	}
	return "", fmt.Errorf("find the CDI device of %s (%s) in %s: %s; %s", d.Label(), d.UUID, strings.Join(f.Dirs, " and "), detail, m.WriteCDI)
}

// source is a vendor's file.
type source struct {
	path string
	spec specs.Spec
}

func listed(found []source) []string {
	var paths []string
	for _, s := range found {
		paths = append(paths, s.path)
	}
	return paths
}

// match returns the name of a device: by its UUID, or else by its device file, if exactly
// one device brings in that file alone.
func match(found []source, d gpu.Device) string {
	for _, s := range found {
		for _, one := range s.spec.Devices {
			if strings.EqualFold(one.Name, d.UUID) {
				return s.spec.Kind + "=" + one.Name
			}
		}
	}
	if d.Path == "" || d.Parent != "" { // an instance shares the file of its GPU
		return ""
	}
	best, most, several := "", 0, false
	for _, s := range found {
		for _, one := range s.spec.Devices {
			nodes := one.ContainerEdits.DeviceNodes
			if !slices.ContainsFunc(nodes, func(n *specs.DeviceNode) bool { return n != nil && d.Path == hostPath(n) }) {
				continue
			}
			id := s.spec.Kind + "=" + one.Name
			switch { // a device that stands for all has more files
			case best == "" || len(nodes) < most:
				best, most, several = id, len(nodes), false
			case len(nodes) == most && id != best:
				several = true
			}
		}
	}
	if several {
		return ""
	}
	return best
}

func hostPath(n *specs.DeviceNode) string {
	if n.HostPath != "" {
		return n.HostPath
	}
	return n.Path
}

// specs reads the files of some kinds, in order of precedence. It goes on after a file
// that cannot be read, and returns the error with the rest.
func (f Folder) specs(kinds []string) ([]source, error) {
	var found []source
	var broken error
	for _, dir := range slices.Backward(f.Dirs) {
		entries, err := os.ReadDir(dir)
		if err := gone(err); err != nil {
			broken = errors.Join(broken, err)
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); ext != ".json" && ext != ".yaml" || strings.HasPrefix(e.Name(), prefix) {
				continue
			}
			path := filepath.Join(dir, e.Name())
			spec, err := read(path)
			if err != nil {
				broken = errors.Join(broken, fmt.Errorf("%s: %w", path, err))
				continue
			}
			if slices.Contains(kinds, spec.Kind) {
				found = append(found, source{path, spec})
			}
		}
	}
	return found, broken
}

func read(path string) (specs.Spec, error) {
	var spec specs.Spec
	if info, err := os.Stat(path); err != nil {
		return spec, err
	} else if !info.Mode().IsRegular() {
		return spec, errors.New("it is not a plain file")
	}
	file, err := os.Open(path)
	if err != nil {
		return spec, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errors.New("it is too large")
	}
	if err != nil {
		return spec, err
	}
	return spec, yaml.Unmarshal(text, &spec)
}
