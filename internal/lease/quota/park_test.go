package quota

import (
	"errors"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// TestServicesDecideAboutParking: what the service says holds, and what the request
// says only if the service says nothing.
func TestServicesDecideAboutParking(t *testing.T) {
	for _, c := range []struct {
		said          gpu.Opt[bool]
		asked         bool
		parks, byHand bool
	}{
		{gpu.Opt[bool]{}, false, false, true},
		{gpu.Opt[bool]{}, true, true, true},
		{gpu.Some(true), false, true, true},
		{gpu.Some(true), true, true, true},
		{gpu.Some(false), false, false, false},
		{gpu.Some(false), true, false, false},
	} {
		s := Service{Name: "embedder", Parkable: c.said}
		r, err := Admit(s, lease.Request{ID: "a", Holder: lease.Holder{Service: "embedder"}, Memory: 4, Terms: lease.Terms{Parkable: c.asked}}, lease.Usage{})
		if err != nil {
			t.Fatal(err)
		}
		l := r.Lease("GPU-0")
		if l.Parkable != c.parks || s.ParksItself(l) != c.parks {
			t.Errorf("%+v: the lease says %v, and berth parks it by itself: %v", c, l.Parkable, s.ParksItself(l))
		}
		if s.SharesNothing(l) {
			t.Errorf("%+v: nobody said that nothing is shared", c)
		}
		if err := s.MayPark(l); (err == nil) != c.byHand || err != nil && !errors.Is(err, ErrForbidden) {
			t.Errorf("%+v: by hand: %v", c, err)
		}
		if several := r.Lease("GPU-0", "GPU-1"); s.ParksItself(several) {
			t.Errorf("%+v: berth would park a lease on two devices", c)
		}
	}
}

// The owner of a lease, or the settings of its service, say that nothing is shared.
func TestSharesNothing(t *testing.T) {
	r, err := Admit(Service{}, lease.Request{ID: "a", Memory: 4, Terms: lease.Terms{Unshared: true}}, lease.Usage{})
	if err != nil {
		t.Fatal(err)
	}
	if l := r.Lease("GPU-0"); !(&Service{}).SharesNothing(l) || l.Parkable {
		t.Errorf("%+v", l)
	}
	if s := (Service{Unshared: true}); !s.SharesNothing(&lease.Lease{}) {
		t.Error("the service's word does not count")
	}
}

func TestServicesAllowShrinking(t *testing.T) {
	l := &lease.Lease{ID: "a", Holder: lease.Holder{Service: "embedder"}}
	soft, firm := Service{Name: "embedder", Shrinkable: true}, Service{Name: "embedder"}
	if err := soft.MayShrink(l); err != nil {
		t.Error(err)
	}
	const want = "shrink a: its service does not allow it: services.embedder.shrinkable is not true"
	if err := firm.MayShrink(l); !errors.Is(err, ErrForbidden) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
