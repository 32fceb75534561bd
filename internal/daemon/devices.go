package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/amd"
	"github.com/berth-gpu/berth/internal/device/drm"
	"github.com/berth-gpu/berth/internal/device/intel"
	"github.com/berth-gpu/berth/internal/device/nvml"
	"github.com/berth-gpu/berth/internal/device/sim"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/text/words"
)

// openDevices opens the backends that spec names: auto, nvml, amd, intel, sim:…, or
// several separated by commas. It is no error if auto does not find a backend, which is
// looked for again later; a backend that spec names must be there.
func openDevices(spec string) (backends []device.Backend, err error) {
	defer func() {
		if err != nil {
			closeAll(backends)
			backends = nil
		}
	}()
	for name := range strings.SplitSeq(spec, ",") {
		name = strings.TrimSpace(name)
		if name == "auto" {
			backends = append(backends, device.OpenLate("nvml", nvml.Opener()))
			for _, t := range inKernel {
				backends = append(backends, device.OpenLate(t.Name, func() (device.Backend, error) { return drm.Open(t, drm.Options{}) }))
			}
			continue
		}
		b, err := openBackend(name, len(backends)*indexStride)
		if err != nil {
			return backends, fmt.Errorf("open devices %q: %w", name, err)
		}
		backends = append(backends, b)
	}
	return backends, nil
}

// whyNone returns why there is no device.
func whyNone(backends []device.Backend) string {
	for _, b := range backends {
		if late, is := b.(*device.Late); is && late.Missing() != nil {
			return "No GPU was found: " + late.Missing().Error() + ". Try berth doctor, or berth serve --devices sim:4 for simulated ones."
		}
	}
	return "The driver answers, but there is no GPU on this machine."
}

// indexStride keeps the indexes of several simulated machines apart, and therefore their
// UUIDs.
const indexStride = 100

// inKernel has the vendors whose driver is part of the kernel.
var inKernel = []*drm.Table{&amd.Table, &intel.Table}

// openBackend opens one backend. Those with a driver in the kernel read the files of this
// machine, or a folder with those of another one, given after a colon.
func openBackend(name string, firstIndex int) (device.Backend, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case "nvml":
		return nvml.Open()
	case "sim":
		return sim.Open(rest, sim.Options{FirstIndex: firstIndex, Guests: os.Getenv("BERTH_SIM_GUESTS")})
	}
	for _, t := range inKernel {
		if t.Name == kind {
			return drm.Open(t, drm.Options{Root: drm.Root(rest), All: true})
		}
	}
	return nil, &device.SpecError{Err: fmt.Errorf("there is no such backend: use %s", words.Or(device.Specs()))}
}

// processTable returns the processes of this machine and those that a backend simulates.
func processTable(backends []device.Backend) process.Table {
	table := process.Proc()
	for _, b := range backends {
		if s, simulates := b.(process.Simulated); simulates {
			table = table.With(s)
		}
	}
	return table
}

func closeAll(backends []device.Backend) error {
	var errs []error
	for _, b := range backends {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}
