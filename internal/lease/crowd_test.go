package lease

import (
	"errors"
	"fmt"
	"testing"

	"github.com/berth-gpu/berth/internal/access"
)

func TestCrowded(t *testing.T) {
	b := New()
	b.SetCapacity("GPU-a", Capacity{Total: 1 << 20, MaxPipelines: 4, Usable: 4})
	grant := func(id, user string) {
		t.Helper()
		l := &Lease{ID: id, Holder: Holder{User: user, UID: 7}, Binding: ByName, Parts: []Part{{GPU: "GPU-a", Memory: 1}}}
		if _, err := b.Apply(Grant{Lease: l}, noon); err != nil {
			t.Fatal(err)
		}
	}
	for i := range MostLeases {
		if err := b.Crowded(Holder{User: "Ada", UID: 7}, false); err != nil {
			t.Fatalf("after %d leases: %v", i, err)
		}
		grant(fmt.Sprint(i), "ada")
	}
	if err := b.Crowded(Holder{User: "Ada", UID: 7}, false); !errors.Is(err, ErrCrowded) {
		t.Errorf("after %d leases: %v", MostLeases, err)
	}
	if err := b.Crowded(Holder{User: "bob", UID: 8}, false); err != nil {
		t.Errorf("another user: %v", err)
	}
	if _, err := b.Apply(Release{Key: only(b, "0"), By: access.Daemon()}, noon); err != nil {
		t.Fatal(err)
	}
	if err := b.Crowded(Holder{User: "Ada", UID: 7}, false); err != nil {
		t.Errorf("after one was given back: %v", err)
	}
}
