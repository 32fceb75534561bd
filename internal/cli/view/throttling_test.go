package view

import (
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

func TestThrottling(t *testing.T) {
	for want, acts := range map[string]*api.Throttling{
		"": {Policy: "slots"},
		"the power limit is 630 W instead of 700 W, after 2 steps, 1 lease held to 50 % of full speed, fans at 80 %": {
			PowerLimit: gpu.Some[gpu.Watts](630), Original: gpu.Some[gpu.Watts](700), PowerSteps: 2,
			Share: gpu.Some(0.5), PacedLeases: 1, Fan: gpu.Some[gpu.Percent](80),
		},
		"nothing: the daemon with pid 7 is in charge of it": {Denied: "the daemon with pid 7 is in charge of it"},
	} {
		if got := throttling(acts); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if throttling(nil) != "" {
		t.Error("an old daemon says nothing about it")
	}
}
