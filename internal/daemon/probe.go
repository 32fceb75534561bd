package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-gpu/berth/internal/cli"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/nvml"
)

// Probe opens each vendor's library the way the daemon would, and says what
// came of it.
func Probe(ctx context.Context) []cli.Finding {
	return []cli.Finding{probeNVML(ctx)}
}

func probeNVML(ctx context.Context) cli.Finding {
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
	return cli.Finding{Topic: "NVML", Grade: cli.Fine, Text: text}
}

// refused grades a library that could not be used. One that is not installed
// is missed only where there is a GPU for it, which is told by the hardware.
func refused(topic string, err error) cli.Finding {
	f := cli.Finding{Topic: topic, Grade: cli.Broken, Text: err.Error(), Next: device.Hint(err)}
	if e := (*device.Error)(nil); errors.As(err, &e) {
		f.Text = e.Op + ": " + e.Err.Error()
	}
	if errors.Is(err, device.ErrNoLibrary) || errors.Is(err, device.ErrNoDriver) {
		f.Grade = cli.Notice
	}
	return f
}
