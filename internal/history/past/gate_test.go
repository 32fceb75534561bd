package past

import (
	"errors"
	"runtime"
	"testing"
)

// Closing waits for the queries that read, and those that come meanwhile are turned away
// at once.
func TestClosingWaitsForQueries(t *testing.T) {
	p := New(t.TempDir(), Options{Settings: usual})
	if _, err := p.Queryable().Querier(0, 1); !errors.Is(err, ErrOpening) {
		t.Errorf("a query before the store was open: %v", err)
	}
	p.Tidy(noon) // opens it
	q, err := p.Queryable().Querier(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	for {
		other, err := p.Queryable().Querier(0, 1)
		if errors.Is(err, ErrOpening) { // Close waits
			break
		}
		if err != nil || other.Close() != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	select {
	case <-closed:
		t.Error("closed before the last query ended")
	default:
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := p.Queryable().Querier(0, 1); !errors.Is(err, ErrOpening) {
		t.Errorf("a query after the store was closed: %v", err)
	}
	if p, err = Open(p.dir, Options{Settings: usual}); err != nil {
		t.Fatal(err)
	}
	if q, err = p.Queryable().Querier(0, 1); err != nil || q.Close() != nil {
		t.Errorf("a query of a store that is open again: %v", err)
	}
	if err := p.Close(); err != nil { // nobody reads: it waits for nothing
		t.Error(err)
	}
}
