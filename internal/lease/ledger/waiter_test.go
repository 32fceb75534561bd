package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// together has the clerk do calls in one batch, in this order. Each is given what
// answers when it is done.
func (k *keeper) together(calls ...func(answer chan<- decision)) []<-chan decision {
	k.t.Helper()
	var answers []<-chan decision
	k.seat <- struct{}{}
	for _, do := range calls {
		answer := make(chan decision, 1)
		answers = append(answers, answer)
		go do(answer)
		synctest.Wait()
	}
	<-k.seat
	return answers
}

func (k *keeper) acquiring(ctx context.Context, r lease.Request) func(chan<- decision) {
	return func(answer chan<- decision) {
		l, err := k.Acquire(ctx, r)
		answer <- decision{l, err}
	}
}

func (k *keeper) releasing(id string, n int) func(chan<- decision) {
	return func(answer chan<- decision) {
		_, err := k.Release(k.t.Context(), byID(id), 0, by(n))
		answer <- decision{&lease.Lease{}, err} // the lease is nil for a request that waited
	}
}

func (k *keeper) resizing(id string, memory gpu.MiB, wait time.Duration) func(chan<- decision) {
	return func(answer chan<- decision) {
		l, err := k.Resize(k.t.Context(), byID(id), 0, memory, by(1), nil, wait)
		answer <- decision{l, err}
	}
}

// A request that is withdrawn is answered, also if its user asks under the same id again
// before the clerk gets to answer.
func TestWithdrawnAndAskedAgainInOneBatch(t *testing.T) {
	for _, refused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			k := w.start(t)
			k.device(0, 100)
			k.grant(want("full", 95, of(9)))
			k.grant(want("named", 5, of(8)))
			ctx, leave := context.WithCancel(t.Context())
			first := k.queue(ctx, want("a", 10, wait(time.Hour)))
			calls := []func(chan<- decision){k.releasing("a", 1), k.acquiring(t.Context(), want("a", 10, wait(time.Hour)))}
			if refused { // then the clerk undoes the batch, and does one after the other
				w.fail(errBroken, false)
				calls = append(calls, k.releasing("named", 8))
			}
			answers := k.together(calls...)
			synctest.Wait()
			w.fail(nil, false)
			select {
			case d := <-first:
				if !errors.Is(d.err, ErrWithdrawn) || d.lease != nil {
					t.Errorf("the first was answered with %+v, %v", d.lease, d.err)
				}
			default:
				t.Error("nobody answered the first")
			}
			leave()
			synctest.Wait()
			k.give("full", 9)
			if d := <-answers[1]; d.err != nil || d.lease.ID != "a" {
				t.Errorf("the second was answered with %+v, %v", d.lease, d.err)
			}
		})
	}
}

// A growth that waits is answered, also if the lease is resized and asked to grow again
// before the clerk gets to answer.
func TestResizedAndGrownAgainInOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("full", 50, of(9)))
		k.grant(want("a", 50))
		first := k.together(k.resizing("a", 80, time.Hour))[0]
		synctest.Wait()
		answers := k.together(k.resizing("a", 40, 0), k.resizing("a", 90, time.Hour))
		synctest.Wait()
		select {
		case d := <-first:
			if d.err == nil || d.lease != nil {
				t.Errorf("the first was answered with %+v, %v", d.lease, d.err)
			}
		default:
			t.Error("nobody answered the first")
		}
		k.give("full", 9)
		if d := <-answers[1]; d.err != nil || d.lease.Parts[0].Memory != 90 {
			t.Errorf("the second was answered with %+v, %v", d.lease, d.err)
		}
	})
}

// Whoever waits gets one answer, whatever others do under the same id in the same batch:
// a lease, or an error, and never neither.
func TestEveryCallerGetsOneAnswer(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			k := w.start(t)
			k.device(0, 100)
			random := rand.New(rand.NewPCG(seed, 7))
			var answers []<-chan decision
			ctx, leave := context.WithCancel(t.Context())
			for range 8 {
				var calls []func(chan<- decision)
				for range 1 + random.IntN(5) {
					id := []string{"a", "b"}[random.IntN(2)]
					switch random.IntN(6) {
					case 0, 1:
						calls = append(calls, k.releasing(id, 1))
					case 2:
						calls = append(calls, k.resizing(id, gpu.MiB(10+random.IntN(90)), time.Duration(random.IntN(2))*time.Hour))
					case 3:
						calls = append(calls, func(answer chan<- decision) {
							key := lease.Key{Owner: lease.Owner{UID: 1}, ID: id}
							if held, stands := k.Find(key); stands && held.State == lease.Active {
								_, err := k.Park(t.Context(), held.Key(), 0, access.Daemon(), "")
								answer <- decision{held.Lease, err}
								return
							} else if stands {
								l, err := k.Return(ctx, held.Key(), 0, access.Daemon(), "", time.Time{}, gpu.Some(time.Hour))
								answer <- decision{l, err}
								return
							}
							answer <- decision{nil, lease.ErrUnknown}
						})
					default:
						calls = append(calls, k.acquiring(ctx, want(id, gpu.MiB(10+random.IntN(90)), wait(time.Duration(random.IntN(2))*time.Hour))))
					}
				}
				if w.fail(nil, false); random.IntN(3) == 0 {
					w.fail(errBroken, random.IntN(2) == 0)
				}
				answers = append(answers, k.together(calls...)...)
				synctest.Wait()
			}
			w.fail(nil, false)
			leave()
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			for i, answer := range answers {
				select {
				case d := <-answer:
					if d.lease == nil && d.err == nil {
						t.Errorf("seed %d: call %d was answered with nothing", seed, i)
					}
				default:
					t.Errorf("seed %d: call %d was not answered", seed, i)
				}
			}
		})
	}
}

// What waits to grow or to return counts against the limit of its user like what waits for
// a new lease. What berth itself asks for is not refused.
func TestWaitingLimitHoldsForGrowthAndReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Limits = limited(1, func(l *lease.Limits) { l.Waiting = lease.Limit[int]{Opt: gpu.Some(1), Source: "users.default"} })
		k := w.start(t)
		k.device(0, 100)
		k.device(1, 100)
		k.device(2, 100)
		for i, id := range []string{"a", "b", "c"} {
			k.grant(want(id, 50, at(dev(i))))
		}
		parked := k.only("c")
		if _, err := k.Park(t.Context(), parked, 0, access.Daemon(), ""); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			k.grant(want("full"+dev(i), []gpu.MiB{50, 50, 100}[i], at(dev(i)), of(9)))
		}
		first := k.together(k.resizing("a", 60, time.Hour))[0]
		synctest.Wait()
		if d := <-k.together(k.resizing("b", 60, time.Hour))[0]; !errors.Is(d.err, quota.ErrCrowded) {
			t.Errorf("a second growth that waits: %v", d.err)
		}
		if _, err := k.Return(t.Context(), parked, 0, by(1), "", time.Time{}, gpu.Some(time.Hour)); !errors.Is(err, quota.ErrCrowded) {
			t.Errorf("a return that waits: %v", err)
		}
		if got := k.waiting(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%q wait", got)
		}
		returned := make(chan error, 1)
		go func() {
			_, err := k.Return(t.Context(), parked, 0, access.Daemon(), "it is its turn", time.Time{}, gpu.Some(time.Hour))
			returned <- err
		}()
		synctest.Wait()
		k.give("full"+dev(2), 9)
		k.give("full"+dev(0), 9)
		if err := <-returned; err != nil {
			t.Errorf("its turn: %v", err)
		}
		if d := <-first; d.err != nil {
			t.Errorf("the growth: %v", d.err)
		}
	})
}

// seen is a journal that is looked at while it is asked to write.
type seen struct {
	journal.Journal
	look func()
}

func (s *seen) Append(group [][]byte, care journal.Care) error {
	s.look()
	return s.Journal.Append(group, care)
}

// A lease stands until its end is in the journal, which may refuse it: until then nobody
// takes it for ended.
func TestEndThatIsNotWrittenYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := &seen{look: func() {}}
		w.wrap = func(j journal.Journal) journal.Journal {
			s.Journal = &fragile{j, w}
			return s
		}
		k := w.start(t)
		k.device(0, 100)
		held := k.grant(want("a", 50))
		looks := 0
		s.look = func() {
			if looks++; k.Lease(held.Key(), held.Fence) == nil {
				t.Error("it is taken for ended")
			}
		}
		for _, refuse := range []error{errBroken, nil} {
			w.fail(refuse, false)
			if _, err := k.Release(t.Context(), byID("a"), 0, by(1)); !errors.Is(err, refuse) {
				t.Errorf("released with %v", err)
			}
			if stands := k.Lease(held.Key(), held.Fence) != nil; stands != (refuse != nil) {
				t.Errorf("the journal answers %v, and it stands: %v", refuse, stands)
			}
		}
		s.look = func() {}
		if looks < 2 {
			t.Errorf("it was looked at %d times", looks)
		}
	})
}
