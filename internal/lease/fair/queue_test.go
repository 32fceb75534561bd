package fair

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A user with a limit makes the calls of one second at once, and then waits for
// each; another user does not, nor does the same one without the limit.
func TestCallsAreDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all Queues
		q, leave := all.Join(7, 10)
		defer leave()
		began := time.Now()
		after := func(calls int) time.Duration {
			for range calls {
				if !q.Pace(t.Context()) {
					t.Fatal("a call was refused")
				}
			}
			return time.Since(began)
		}
		if took := after(10); took != 0 {
			t.Errorf("the calls of the first second took %v", took)
		}
		if took := after(20); took != 2*time.Second {
			t.Errorf("20 more took %v", took)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if q.Pace(gone) {
			t.Error("somebody who has left may call")
		}
		other, leaveOther := all.Join(8, 0)
		defer leaveOther()
		for range 1000 {
			other.Pace(t.Context())
		}
		q.Limit(0)
		after(1000)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("without a limit, calls took %v", took)
		}
		q.Limit(10)
		q.Limit(0.5)
		time.Sleep(time.Minute)
		began = time.Now()
		if took := after(2); took != 2*time.Second {
			t.Errorf("two calls at one in 2 s took %v", took)
		}
	})
}

// Requests of one user wait for places, those of others are not held up, and
// somebody who leaves while waiting takes no place.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all Queues
		q, leave := all.Join(7, 0)
		for range cap(q.light) {
			if q.Enter(t.Context(), Light) == nil {
				t.Fatal("there was no place")
			}
		}
		heavyOne := q.Enter(t.Context(), Heavy) // has a lane of its own
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if q.Enter(gone, Light) != nil {
			t.Error("somebody who has left has a place")
		}
		next := make(chan *Place)
		go func() { next <- q.Enter(context.Background(), Heavy) }()
		synctest.Wait()
		other, leaveOther := all.Join(8, 0)
		other.Enter(t.Context(), Light).Leave()
		leaveOther()
		heavyOne.Leave()
		heavyOne.Leave()
		(<-next).Leave()
		leave()
		for uid, q := range all.byUser {
			if q.here != 0 {
				t.Errorf("%d of user %v are left behind", q.here, uid)
			}
		}
	})
}

// A caller that is slow to send or to read keeps its place for as long as that
// takes, and not many times as long.
func TestASlowCallerRestsAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all Queues
		q, leave := all.Join(7, 0)
		defer leave()
		slow := q.Enter(t.Context(), Heavy)
		time.Sleep(10 * time.Second)
		all.Note(8) // somebody else asks too
		slow.Leave()
		begun := time.Now()
		q.Enter(t.Context(), Heavy).Leave()
		if waited := time.Since(begun); waited > 2*time.Second {
			t.Errorf("the next request of the same user waited %v", waited)
		}
		synctest.Wait()
	})
}

// A user who asks for one thing after the other has done all of it.
func TestOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all Queues
		begun, worked := time.Now(), 100*time.Millisecond
		for range 10 {
			q, leave := all.Join(7, 0)
			place := q.Enter(t.Context(), Heavy)
			time.Sleep(worked)
			all.Note(8) // somebody else asks too
			place.Leave()
			leave()
		}
		if took, want := time.Since(begun), 9*(1+rest)*worked; took < want {
			t.Errorf("10 requests of %v took %v beside another user, want %v at least", worked, took, want)
		}
	})
}

func TestQueuesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all Queues
		for uid := range 100 * fewQueues {
			q, leave := all.Join(uid, 0)
			place := q.Enter(t.Context(), Light)
			time.Sleep(time.Millisecond)
			place.Leave()
			leave()
		}
		if n := len(all.byUser); n > 2*fewQueues {
			t.Errorf("%d queues are kept", n)
		}
	})
}

func TestFollowersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all Queues
		const streams = 32
		var leaves []func()
		for range streams {
			q, leave := all.Follow(7, 0, streams)
			if q == nil {
				t.Fatalf("turned away after %d", len(leaves))
			}
			leaves = append(leaves, leave)
		}
		if q, _ := all.Follow(7, 0, streams); q != nil {
			t.Error("one too many was let in")
		}
		if q, leave := all.Follow(8, 0, streams); q == nil {
			t.Error("another user was turned away")
		} else {
			leave()
		}
		for _, leave := range leaves {
			leave()
		}
		synctest.Wait()
		for uid, q := range all.byUser {
			if q.here != 0 {
				t.Errorf("%d of user %v are left behind", q.here, uid)
			}
		}
	})
}

// A query keeps no other request waiting, other queries of the user wait for it,
// and those beyond the limit have no place at once.
func TestQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all Queues
		q, leave := all.Join(7, 0)
		defer leave()
		first := q.Enter(t.Context(), Query)
		for _, w := range []Weight{Heavy, Light} {
			other := q.Enter(t.Context(), w)
			if other == nil {
				t.Fatalf("a request of weight %v waits for a query", w)
			}
			other.Leave()
		}
		places := make(chan *Place)
		for range mostQueries {
			go func() { places <- q.Enter(t.Context(), Query) }()
		}
		synctest.Wait()
		if q.Enter(t.Context(), Query) != nil {
			t.Error("one query too many got a place")
		}
		first.Leave()
		for range mostQueries {
			next := <-places
			if next == nil {
				t.Fatal("a query that waited got no place")
			}
			next.Leave()
		}
	})
}
