package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/nvml"
	"github.com/berth-gpu/berth/internal/doctor"
)

// Probe opens each vendor's library the way the daemon would, and says what
// came of it.
func Probe(ctx context.Context) []doctor.Finding {
	return []doctor.Finding{probeNVML(ctx)}
}

func probeNVML(ctx context.Context) doctor.Finding {
	b, err := nvml.Open()
	if err != nil {
		return refused("NVML", err)
	}
	defer b.Close()
	found, err := b.Scan(ctx)
	if err != nil {
		return refused("NVML", err)
	}
	text := fmt.Sprintf("NVML answers and lists %d devices", len(found))
	for _, d := range found {
		about := d.Describe()
		text += fmt.Sprintf("\n%d  %s, %s, %s", about.Index, about.Name, about.MemoryTotal, about.UUID)
	}
	return doctor.Finding{Topic: "NVML", Grade: doctor.Fine, Text: text}
}

// refused grades a library that could not be used. One that is not installed
// is missed only where there is a GPU for it, which is told by the hardware.
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
