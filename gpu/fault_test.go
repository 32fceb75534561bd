package gpu

import "testing"

func TestFaultReads(t *testing.T) {
	for _, c := range []struct {
		fault       Fault
		cause, text string
	}{
		{Fault{}, "a fault that the driver does not describe", "a fault that the driver does not describe"},
		{Fault{Name: "bad luck"}, "bad luck", "bad luck"},
		{Fault{Name: "bad luck", Code: "E 7", Remedy: "try again."}, "E 7, bad luck", "E 7, bad luck: try again."},
	} {
		if c.fault.Cause() != c.cause || c.fault.String() != c.text {
			t.Errorf("%+v reads %q and %q", c.fault, c.fault.Cause(), c.fault.String())
		}
	}
}
