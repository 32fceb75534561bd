package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-gpu/berth/internal/desk/doctor"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/drm"
	"github.com/berth-gpu/berth/internal/device/nvml"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Probe opens each vendor's driver the way the daemon would, and reports the results. It
// leaves out kernel drivers without a GPU, because nothing is missing there.
func Probe(ctx context.Context) []doctor.Finding {
	found := []doctor.Finding{probe(ctx, "NVML", func() (device.Backend, error) {
		b, err := nvml.Open()
		if err != nil {
			return nil, err // not b, which would be a non-nil interface
		}
		return b, nil
	})}
	for _, t := range inKernel {
		f := probe(ctx, t.Label, func() (device.Backend, error) { return drm.Open(t, drm.Options{}) })
		if f.Grade != doctor.Notice {
			found = append(found, f)
		}
	}
	return found
}

func probe(ctx context.Context, topic string, open func() (device.Backend, error)) doctor.Finding {
	b, err := open()
	if err != nil {
		return refused(topic, err)
	}
	defer b.Close()
	found, err := b.Scan(ctx)
	if err != nil {
		return refused(topic, err)
	}
	driver := topic
	if topic != "NVML" {
		driver = "the driver"
	}
	text := fmt.Sprintf("%s answers and lists %s", driver, words.Count(len(found), "device"))
	for _, d := range found {
		about := d.Describe()
		memory := about.MemoryTotal.String()
		if about.MemoryTotal == 0 {
			memory = "memory not known"
		}
		text += fmt.Sprintf("\n%d  %s, %s, %s", about.Index, about.Name, memory, about.UUID)
	}
	return doctor.Finding{Topic: topic, Grade: doctor.Fine, Text: text}
}

// refused grades a library that could not be used. A library that is not installed is a
// problem only if there is a GPU for it, which Doctor.Examine reports with the hardware.
func refused(topic string, err error) doctor.Finding {
	f := doctor.Finding{Topic: topic, Grade: doctor.Broken, Text: err.Error(), Next: device.Hint(err)}
	if e := (*device.Error)(nil); errors.As(err, &e) {
		f.Text = e.Op + ": " + e.Err.Error()
	}
	if errors.Is(err, device.ErrNoLibrary) || errors.Is(err, device.ErrNoDriver) {
		f.Grade = doctor.Notice
	}
	return f
}
