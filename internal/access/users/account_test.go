package users

import (
	"errors"
	"os/user"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/when/later"
)

// The last answer of the user database counts while it has no other, for a day; what it
// took away stays taken away.
func TestTheLastAnswerAboutAnAccountCounts(t *testing.T) {
	there := func(string) (int, []int, error) { return 1000, []int{1000, 7}, nil }
	gone := func(name string) (int, []int, error) { return 0, nil, user.UnknownUserError(name) }
	broken := func(string) (int, []int, error) { return 0, nil, errors.New("the server has failed") }
	hangs := func(string) (int, []int, error) { time.Sleep(time.Minute); return 0, nil, errors.New("no answer") }
	const known, unknown, notNow = "known", "unknown", "not now"
	type step struct {
		after   time.Duration
		account func(string) (int, []int, error)
		want    string
	}
	for name, steps := range map[string][]step{
		"nothing was ever answered":    {{0, hangs, notNow}, {0, broken, notNow}},
		"an outage":                    {{0, there, known}, {time.Hour, hangs, known}, {time.Hour, broken, known}, {time.Hour, there, known}},
		"an outage of more than a day": {{0, there, known}, {23 * time.Hour, hangs, known}, {2 * time.Hour, hangs, notNow}},
		"a user who was removed":       {{0, there, known}, {time.Hour, gone, unknown}, {time.Hour, hangs, unknown}, {time.Hour, broken, unknown}},
		"a user who came back":         {{0, gone, unknown}, {time.Hour, there, known}, {time.Hour, hangs, known}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := New(nil, time.Second)
				for i, s := range steps {
					time.Sleep(s.after)
					synctest.Wait() // a lookup before has asked, and hangs
					n.account = s.account
					uid, groups, err := n.AccountOf("ada")
					got := known
					if later.Passes(err) {
						got = notNow
					} else if err != nil {
						got = unknown
					}
					if got != s.want || got == known && (uid != 1000 || len(groups) != 2) {
						t.Errorf("step %d: %s (%d, %v, %v), want %s", i, got, uid, groups, err, s.want)
					}
				}
				time.Sleep(time.Hour) // until the lookups that hang have ended
			})
		})
	}
}

// Who asks for many accounts waits for few: each question that hangs keeps a place, and when
// none is left, one more would wait in vain.
func TestADatabaseThatHangsKeepsNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, answers := New(nil, time.Second), make(chan bool)
		n.account = func(string) (int, []int, error) { <-answers; return 1000, nil, nil }
		began := time.Now()
		for range 200 {
			if _, _, err := n.AccountOf("ada"); !later.Passes(err) {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited > maxLookups*time.Second {
			t.Errorf("it waited %v", waited)
		}
		close(answers)
		synctest.Wait()
		if uid, _, err := n.AccountOf("ada"); uid != 1000 {
			t.Errorf("when it answers again: %d, %v", uid, err)
		}
	})
}

// An answer that comes late says nothing about what was asked, and answered, after it.
func TestALateAnswerTakesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(nil, time.Second)
		n.account = func(string) (int, []int, error) { time.Sleep(time.Minute); return 1000, nil, nil }
		_, _, _ = n.AccountOf("ada")
		synctest.Wait() // it has asked, and hangs
		n.account = func(name string) (int, []int, error) { return 0, nil, user.UnknownUserError(name) }
		_, _, _ = n.AccountOf("ada")
		time.Sleep(time.Hour)
		n.account = func(string) (int, []int, error) { return 0, nil, errors.New("the server has failed") }
		if uid, _, err := n.AccountOf("ada"); err == nil || later.Passes(err) {
			t.Errorf("ada is %d, %v", uid, err)
		}
	})
}
