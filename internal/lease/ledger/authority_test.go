package ledger

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// notes is an audit log that refuses on command.
type notes struct {
	mu     sync.Mutex
	refuse error
	told   []string
}

func (n *notes) authority(effects []lease.Effect, failed error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range effects {
		if !effects[i].OnOthers() {
			continue
		}
		if n.refuse != nil && failed == nil {
			return n.refuse
		}
		text := string(effects[i].Kind)
		if failed != nil {
			text += " failed"
		}
		n.told = append(n.told, text)
	}
	return nil
}

func (n *notes) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = err
}

// Acts on others' leases are written down before they are done, and refused if
// that fails. Nobody else waits for it, and nobody else is refused.
func TestAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(), &notes{}
		w.audited = n.authority
		k := w.start(t)
		k.device(0, 1000)
		root := access.Actor{User: "root", UID: 0, Door: access.Socket, Role: access.Admin}
		asked := func(r lease.Request, who access.Actor) lease.Request { r.By = who; return r }
		for _, id := range []string{"a", "b", "c"} {
			k.grant(want(id, 100))
		}
		if _, err := k.Release(t.Context(), byID("a"), 0, by(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Release(t.Context(), byID("b"), 0, root); err != nil {
			t.Fatal(err)
		}
		k.grant(asked(want("spoken", 100), root)) // root leases for somebody else
		if want := []string{"release", "grant"}; !slices.Equal(n.told, want) {
			t.Errorf("told %q, want %q", n.told, want)
		}

		// The log cannot be written.
		full := errors.New("no room")
		n.fail(full)
		before := k.leases()
		if _, err := k.Release(t.Context(), byID("c"), 0, root); !errors.Is(err, full) {
			t.Errorf("released with %v", err)
		}
		if got := k.leases(); !slices.Equal(got, before) {
			t.Errorf("leases %v, before %v", got, before)
		}
		if _, err := k.Release(t.Context(), byID("c"), 0, by(1)); err != nil {
			t.Errorf("its own holder released with %v", err)
		}
		if _, err := k.Release(t.Context(), byID("spoken"), 0, by(1)); err != nil {
			t.Errorf("its own holder released with %v", err)
		}
		n.fail(nil)

		// A request that root makes for somebody else is written down when it
		// waits; its grant needs no log.
		k.grant(want("large", 900))
		waits := k.queue(t.Context(), asked(want("waits", 900, wait(time.Hour)), root))
		synctest.Wait()
		n.fail(full)
		if _, err := k.Release(t.Context(), byID("large"), 0, by(1)); err != nil {
			t.Fatal(err)
		}
		if d := <-waits; d.err != nil {
			t.Errorf("the grant failed: %v", d.err)
		}
		n.fail(nil)

		// What the journal refuses is written down as failed.
		n.told = nil
		w.fail(errBroken, false)
		if _, err := k.Release(t.Context(), byID("waits"), 0, root); !errors.Is(err, errBroken) {
			t.Errorf("released with %v", err)
		}
		w.fail(nil, false)
		if len(n.told) == 0 || len(n.told)%2 != 0 || n.told[0] != "release" || n.told[len(n.told)-1] != "release failed" {
			t.Errorf("told %q", n.told)
		}
	})
}

// While the audit log takes nothing, the request whose grant it has to take waits for it,
// and nobody waits for that request. It is granted soon after the log takes it again.
func TestGrantThatTheAuditLogRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var full atomic.Bool
		w.audited = func(effects []lease.Effect, failed error) error {
			if full.Load() && failed == nil && slices.ContainsFunc(effects, func(e lease.Effect) bool { return e.SetsScope() }) {
				return errors.New("no room")
			}
			return nil
		}
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("full", 90, of(9)))
		scoped := k.queue(t.Context(), want("scoped", 60, wait(24*time.Hour), func(r *lease.Request) { r.Scope = []string{"docker-1"} }))
		time.Sleep(time.Second)
		other := k.queue(t.Context(), want("other", 60, of(2), wait(time.Hour)))
		full.Store(true)
		k.give("full", 9)
		asked := time.Now()
		if d := <-other; d.err != nil || time.Since(asked) > 0 {
			t.Errorf("the other got %v after %v", d.err, time.Since(asked))
		}
		k.grant(want("third", 40, of(3), wait(time.Hour)))
		k.give("third", 3)
		time.Sleep(12 * time.Hour)
		if got := k.waiting(); !slices.Equal(got, []string{"scoped"}) {
			t.Fatalf("%q wait", got)
		}
		k.give("other", 2)
		time.Sleep(time.Hour)
		full.Store(false)
		asked = time.Now()
		if d := <-scoped; d.err != nil || time.Since(asked) > 2*retry {
			t.Errorf("the first got %v after %v", d.err, time.Since(asked))
		}
	})
}
