package gpu

import "testing"

func TestAmountsInOneUnit(t *testing.T) {
	for _, c := range []struct {
		got, want string
	}{
		{MiB(512).Beside(100), "512 MiB"}, {MiB(512).Beside(60 << 10), "0.5 GiB"}, {MiB(60 << 10).Beside(512), "60 GiB"},
		{MiB(3).Beside(60 << 10), "0.003 GiB"}, {MiB(0).Beside(60 << 10), "0 GiB"}, {MiB(2 << 20).Beside(60 << 10), "2048 GiB"},
		{MiB(40244).ExactBeside(60 << 10), "39.301 GiB"}, {MiB(1).Beside(), "1 MiB"},
		{Joules(0).InWattHours(), "0 Wh"}, {Joules(1).InWattHours(), "<0.001 Wh"}, {Joules(350).InWattHours(), "0.097 Wh"},
		{Joules(36000).InWattHours(), "10 Wh"}, {Joules(9e8).InWattHours(), "250000 Wh"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
