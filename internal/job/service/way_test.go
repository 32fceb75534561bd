package service

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
)

// What a switch takes is known from the ways that a service may take, and at first from its
// start.
func TestSwitching(t *testing.T) {
	took := func(seconds float64) api.ServiceTime { return api.ServiceTime{Seconds: seconds, Count: 1} }
	all := api.ServiceTimes{Start: took(9), Stop: took(1), Park: took(3), Resume: took(2), Sleep: took(1), Wake: took(1)}
	for _, test := range []struct {
		away Way
		took api.ServiceTimes
		want time.Duration
	}{
		{Auto, api.ServiceTimes{}, 0},
		{Auto, api.ServiceTimes{Start: took(9)}, 9 * time.Second},
		{Park, api.ServiceTimes{Start: took(9), Park: took(1)}, 9 * time.Second},   // it has not come back yet
		{Park, api.ServiceTimes{Start: took(9), Resume: took(1)}, 9 * time.Second}, // it has not left yet
		{Auto, all, 2 * time.Second},
		{Park, all, 5 * time.Second},
		{Stop, all, 10 * time.Second},
	} {
		if got := (&Spec{Away: test.away}).Switching(&test.took); got != test.want {
			t.Errorf("%s, %+v: %v, want %v", test.away, test.took, got, test.want)
		}
	}
}
