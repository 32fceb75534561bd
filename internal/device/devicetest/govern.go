package devicetest

import (
	"errors"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// checkGovern lowers the power limit of devices that allow it, sets their fans, and gives
// both back. It checks nothing for devices that are no device.Governor.
func checkGovern(t *testing.T, b device.Backend) {
	for _, dev := range Scan(t, b) {
		if governor, is := dev.(device.Governor); is {
			checkPowerLimit(t, dev.Describe().UUID, governor)
			checkFan(t, dev.Describe().UUID, governor)
		}
	}
}

func checkPowerLimit(t *testing.T, uuid string, g device.Governor) {
	t.Helper()
	was, err := g.PowerLimits(t.Context())
	if err != nil {
		mayRefuse(t, uuid, "PowerLimits", err)
		return
	}
	most := was.Most
	if most == 0 {
		most = max(was.Now, was.Default)
	}
	if !(was.Least > 0 && was.Least <= was.Now && was.Now <= most && was.Least <= was.Default && was.Default <= most) {
		t.Errorf("%s: power limits must be in order, got %+v", uuid, was)
	}
	if err := g.SetPowerLimit(t.Context(), was.Least); err != nil {
		mayRefuse(t, uuid, "SetPowerLimit", err)
		return
	}
	if now, err := g.PowerLimits(t.Context()); err != nil || now.Now != was.Least {
		t.Errorf("%s: the limit must be the %g W that was set, is %g W, %v", uuid, was.Least, now.Now, err)
	}
	for _, bad := range []gpu.Watts{-1, 0, was.Least / 2, was.Most * 2} { // 0 twice if the driver names no highest limit
		if err := g.SetPowerLimit(t.Context(), bad); err == nil {
			t.Errorf("%s: a limit of %g W must be refused", uuid, bad)
		}
	}
	if err := g.SetPowerLimit(t.Context(), was.Now); err != nil {
		t.Errorf("%s: the limit must go back to %g W, but: %v", uuid, was.Now, err)
	}
	if now, err := g.PowerLimits(t.Context()); err != nil || now != was {
		t.Errorf("%s: the limits were %+v, and after all are %+v, %v", uuid, was, now, err)
	}
}

func checkFan(t *testing.T, uuid string, g device.Governor) {
	t.Helper()
	if err := g.SetFan(t.Context(), 80); err != nil {
		mayRefuse(t, uuid, "SetFan", err)
		return
	}
	if err := g.SetFan(t.Context(), 150); err == nil {
		t.Errorf("%s: a fan at 150 %% must be refused", uuid)
	}
	if err := g.ReleaseFan(t.Context()); err != nil {
		t.Errorf("%s: a fan that was set must be released, but: %v", uuid, err)
	}
}

// mayRefuse accepts the two errors of a device that cannot be set.
func mayRefuse(t *testing.T, uuid, what string, err error) {
	t.Helper()
	if !errors.Is(err, device.ErrUnsupported) && !errors.Is(err, device.ErrNoPermission) {
		t.Errorf("%s: %s must work, or answer ErrUnsupported or ErrNoPermission, got: %v", uuid, what, err)
	}
}
