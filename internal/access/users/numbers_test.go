package users

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestNumbers(t *testing.T) {
	n := &Numbers{Limit: time.Minute}
	missing := n.Find([]string{"root", "12345", "no-such-user"}, []string{"root", "777", "no-such-group"})
	if want := []string{"user no-such-user", "group no-such-group"}; !slices.Equal(missing, want) {
		t.Errorf("missing are %q, want %q", missing, want)
	}
	for name, want := range map[string]int{"root": 0, "12345": 12345} {
		if id, known := n.User(name); !known || id != want {
			t.Errorf("user %s is %d, %v", name, id, known)
		}
	}
	for name, want := range map[string]int{"root": 0, "777": 777} {
		if id, known := n.Group(name); !known || id != want {
			t.Errorf("group %s is %d, %v", name, id, known)
		}
	}
	if _, known := n.User("no-such-user"); known {
		t.Error("a user who is not there has an id")
	}
}

// A database that hangs is asked once, however often Find is called; what it
// answers late is kept, and a user is not taken for a group of the same name.
func TestNumbersOfAHungDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, asked := make(chan struct{}), 0
		n := &Numbers{Limit: 2 * time.Second, lookup: func(a account) (int, error) {
			if a == groupAccount("alice") {
				return 0, errors.New("there is no such group")
			}
			asked++
			<-hang
			return 1000, nil
		}}
		for range 5 {
			begun := time.Now()
			if missing := n.Find([]string{"alice"}, []string{"alice"}); len(missing) != 2 || time.Since(begun) != 2*time.Second {
				t.Errorf("missing are %q after %v", missing, time.Since(begun))
			}
		}
		close(hang)
		synctest.Wait()
		if missing := n.Find([]string{"alice"}, []string{"alice"}); !slices.Equal(missing, []string{"group alice"}) || asked != 1 {
			t.Errorf("missing are %q, and the database was asked %d times", missing, asked)
		}
		if id, known := n.User("alice"); !known || id != 1000 {
			t.Errorf("alice is %d, %v", id, known)
		}
	})
}
