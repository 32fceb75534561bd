package devicetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// checkMeter asks each device.Meter for the shares of processes. A device that cannot
// tell returns an error that says so.
func checkMeter(t *testing.T, b device.Backend) {
	for _, dev := range Scan(t, b) {
		meter, is := dev.(device.Meter)
		if !is {
			continue
		}
		uuid := dev.Describe().UUID
		since := time.Now().Add(-time.Minute)
		for range 3 {
			busy, err := meter.Busy(t.Context(), since)
			if err != nil {
				mayRefuse(t, uuid, "Busy", err)
				break
			}
			if busy.From.Before(since) || busy.Until.Before(busy.From) || busy.Until.After(time.Now().Add(time.Second)) {
				t.Errorf("%s: Busy since %v must be about the time from then to now, got %v to %v", uuid, since, busy.From, busy.Until)
			}
			for pid, share := range busy.Shares {
				if pid <= 0 {
					t.Errorf("%s: Busy must name processes, got %d", uuid, pid)
				}
				inRange(t, uuid, fmt.Sprintf("Busy of %d", pid), gpu.Some(share), 0, 100)
			}
			since = busy.Until
		}
	}
}
