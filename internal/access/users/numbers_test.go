package users

import (
	"errors"
	"os/user"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestNumbers(t *testing.T) {
	n := &Numbers{Limit: time.Minute}
	missing := n.Find([]string{"root", "12345", "no-such-user"}, []string{"root", "777", "no-such-group"}, false)
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
			if missing := n.Find([]string{"alice"}, []string{"alice"}, false); len(missing) != 2 || time.Since(begun) != 2*time.Second {
				t.Errorf("missing are %q after %v", missing, time.Since(begun))
			}
		}
		close(hang)
		synctest.Wait()
		if missing := n.Find([]string{"alice"}, []string{"alice"}, false); !slices.Equal(missing, []string{"group alice"}) || asked != 1 {
			t.Errorf("missing are %q, and the database was asked %d times", missing, asked)
		}
		if id, known := n.User("alice"); !known || id != 1000 {
			t.Errorf("alice is %d, %v", id, known)
		}
	})
}

// An account that is gone has no id any more; one that cannot be asked about keeps it.
func TestNumbersAgain(t *testing.T) {
	ids := map[account]error{userAccount("ada"): nil, userAccount("bob"): user.UnknownUserError("bob"), groupAccount("lab"): errors.New("the server does not answer")}
	n := &Numbers{Limit: time.Minute, lookup: func(account) (int, error) { return 7, nil }}
	names := []string{"ada", "bob", "12"}
	n.Find(names, []string{"lab"}, false)
	n.lookup = func(a account) (int, error) { return 8, ids[a] }
	if missing := n.Find(names, []string{"lab"}, false); len(missing) != 0 {
		t.Errorf("%q are missing", missing)
	}
	if missing := n.Find(names, []string{"lab"}, true); !slices.Equal(missing, []string{"user bob"}) {
		t.Errorf("%q are missing, want bob", missing)
	}
	ada, _ := n.User("ada")
	lab, _ := n.Group("lab")
	if ada != 8 || lab != 7 {
		t.Errorf("ada is %d and lab %d, want 8 and 7", ada, lab)
	}
}

// One name that the database hangs at leaves the others their answers, whatever the order.
func TestOneNameThatHangsLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		n := &Numbers{Limit: 2 * time.Second, lookup: func(a account) (int, error) {
			if a == userAccount("hangs") {
				<-hang
			}
			return 1000, nil
		}}
		names := []string{"hangs"}
		for i := range 3 * maxNumberLookups {
			names = append(names, "user"+strconv.Itoa(i))
		}
		if missing := n.Find(names, []string{"staff"}, false); !slices.Equal(missing, []string{"user hangs"}) {
			t.Errorf("missing are %q", missing)
		}
		if missing := n.Find([]string{"hangs", "new"}, nil, false); !slices.Equal(missing, []string{"user hangs"}) {
			t.Errorf("later missing are %q", missing)
		}
		close(hang)
		synctest.Wait()
		if missing := n.Find(names, nil, false); len(missing) > 0 || n.workers != 0 || len(n.asking) != 0 {
			t.Errorf("at last missing are %q, and %d workers are left", missing, n.workers)
		}
	})
}
