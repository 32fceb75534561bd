package quota

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Settings say what requests may have of a machine.
type Settings struct {
	// Device returns the settings of one device.
	Device func(uuid string) DeviceSettings
	// Services has the settings of services, by name.
	Services map[string]Served
	// Alike has the names of Services by what they look like, as Alike returns them.
	Alike map[string]string
	// KnownOnly refuses requests for a service that is not among Services.
	KnownOnly bool
	// Wait is how long a request waits if it does not say so itself.
	Wait time.Duration
	// Limits says what users may have.
	Limits Lookup
}

// DeviceSettings are the settings of one device.
type DeviceSettings struct {
	Limit        gpu.MiB // zero means all of it
	Reserve      gpu.MiB
	MaxPipelines int // zero means the number of CPUs divided by that of devices
}

// Served has the settings of one service, and which devices and processes are its
// own.
type Served struct {
	Service
	Preferred string         // index or UUID of the device to try first; may be empty
	Match     *kinship.Match // how to recognize its processes; nil if the settings do not say
}

// Knows refuses a service that looks like a configured one. Where only configured
// services may ask, it also refuses one that is not configured.
func (s *Settings) Knows(service string) error {
	if _, known := s.Services[service]; known || service == "" {
		return nil
	}
	if len(s.Alike) > 0 {
		if name := s.Alike[skeleton(service)]; name != "" {
			return &AdmitError{
				Service: service, Err: ErrAlike,
				Text: fmt.Sprintf("it differs from the configured service %s only by case, or by letters that look alike", name),
			}
		}
	}
	if !s.KnownOnly {
		return nil
	}
	names := slices.Sorted(maps.Keys(s.Services))
	return &AdmitError{
		Service: service, Err: ErrService,
		Text: "it is not configured, and unknown_services is refuse: " + words.Suggest(service, names, "there is none like it"),
	}
}
