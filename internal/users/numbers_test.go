package users

import (
	"slices"
	"testing"
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
	if _, known := n.Group("12345"); known {
		t.Error("a user is taken for a group")
	}
}
