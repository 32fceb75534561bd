package lease

import (
	"testing"
	"time"
)

// A lease that an earlier berth wrote down counts for the service whose name
// was spelled otherwise.
func TestRestoredServiceHasItsOneName(t *testing.T) {
	l := &Lease{ID: "a", Fence: 1, Holder: Holder{User: "u", UID: 1, Service: "embedding_service"}, Binding: ByName, Granted: time.Unix(1, 0), State: Active, Parts: []Part{{GPU: "GPU-1", Memory: 5}}}
	r := EntryOf(&Effect{Kind: Granted, Time: l.Granted, After: l})
	if got := restored(&r).Holder.Service; got != "embedding-service" {
		t.Errorf("restored as %q", got)
	}
}
