package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestMay holds who may do what: every actor, every verb, every object.
func TestMay(t *testing.T) {
	socket := func(user string, uid int, role Role) Actor {
		return Actor{User: user, UID: uid, Door: Socket, Role: role}
	}
	actors := []struct {
		name  string
		actor Actor
	}{
		{"nobody", Actor{}},
		{"stranger", Actor{User: "unknown", UID: NoUID, Door: TCP}},
		{"viewer", socket("unknown", NoUID, Viewer)},
		{"ada", socket("ada", 1000, User)},
		{"eve", socket("eve", 1001, User)},
		{"mallory", socket("token", 1003, User)}, // whose login name is token,
		{"root", socket("root", 0, Admin)},
		{"token", Actor{User: "token", UID: NoUID, Token: DaemonToken, Door: TCP, Role: Admin}},
		{"daemon", Daemon()},
	}
	objects := []struct {
		name   string
		object Object
		owners string // who owns it, of the actors
	}{
		{"the machine", Object{}, "everybody"},
		{"a lease of ada", Of(Held, 1000, "ada"), "ada"},
		{"a lease of another ada", Of(Held, 1002, "ada"), ""},
		{"a request of ada", Of(Asked, 1000, "ada"), "ada"},
		{"a lease of a token", Of(Held, NoUID, "token"), "token"},
		{"a lease of nobody", Of(Held, NoUID, ""), "daemon"},
		{"a process of ada", Of(Process, 1000, ""), "ada"},
		{"a process of root", Of(Process, 0, ""), "nobody root"},
		{"a batch of ada", Named(Batch, "ada"), "ada"},
		{"a batch of a token", Named(Batch, "token"), "mallory"},
		{"an event about nobody", Named(Happening, ""), ""},
		{"the runs of eve", Named(Measured, "eve"), "eve"},
		{"all that there is", Everything(), ""},
	}
	anybody, looks, uses, administers := " probe ", " look ", " name lease report ", " scope revoke precede exceed configure monitor "
	for _, a := range actors {
		for _, o := range objects {
			for _, v := range Verbs() {
				word, role := " "+v.String()+" ", a.actor.Role
				owns := o.owners == "everybody" || slices.Contains(strings.Fields(o.owners), a.name)
				want := false
				switch {
				case strings.Contains(anybody, word):
					want = true
				case strings.Contains(looks, word):
					want = role >= Viewer
				case strings.Contains(uses, word):
					want = role >= User
				case strings.Contains(administers, word):
					want = role == Admin
				default: // what is done to somebody's thing
					want = role == Admin || role == User && owns
				}
				err := May(a.actor, v, o.object)
				if (err == nil) != want {
					t.Errorf("%s may %s %s: %v, want %v", a.name, v, o.name, err, want)
				}
				var refusal *Refusal
				if err != nil && (!errors.As(err, &refusal) || err.Error() == "") {
					t.Errorf("%s may not %s %s, and it does not say why: %v", a.name, v, o.name, err)
				}
				if notYours := role >= User && !strings.Contains(administers, word); err != nil && errors.Is(err, ErrNotYours) != notYours {
					t.Errorf("%s may not %s %s because %v", a.name, v, o.name, err)
				}
			}
		}
	}
}

func TestNobodyMayDoWhatHasNoRule(t *testing.T) {
	for _, v := range []Verb{-1, 0, Verb(len(rules))} {
		if err := May(Daemon(), v, Object{}); err == nil || v.String() != "none" {
			t.Errorf("the daemon may %v", v)
		}
	}
	for _, v := range Verbs() {
		if rules[v].name == "" {
			t.Errorf("verb %d has no rule", int(v))
		}
	}
}

func TestRefusalNamesTheOwner(t *testing.T) {
	eve := Actor{User: "eve", UID: 1001, Role: User}
	for want, o := range map[string]Object{
		"it belongs to somebody else: ada": Of(Held, 1000, "ada"),
		"it belongs to somebody else":      Of(Process, 1000, ""),
	} {
		if err := May(eve, Release, o); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// May is asked several times for every lease.
func TestAskingCostsNoMemory(t *testing.T) {
	ada := Actor{User: "ada", UID: 1000, Role: User}
	if n := testing.AllocsPerRun(100, func() {
		_, _, _ = May(ada, Exceed, Object{}), May(ada, Precede, Object{}), May(ada, Release, Of(Held, 1000, "ada"))
	}); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
}

// A caller becomes an actor who is only as much as is known for certain.
func TestActorOfACaller(t *testing.T) {
	for _, c := range []struct {
		caller Caller
		want   Actor
	}{
		{Caller{}, Actor{User: "unknown", UID: NoUID, Role: Viewer}},
		{Caller{Door: TCP}, Actor{User: "unknown", UID: NoUID, Door: TCP, Role: Viewer}},
		{Caller{Door: Socket, UID: KnownUID(0), Place: Elsewhere}, Actor{User: "unknown", UID: NoUID, Door: Socket, Role: Viewer}},
		{Caller{Door: Socket, UID: KnownUID(0), Place: Here}, Actor{UID: 0, Door: Socket, Role: Admin}},
		{Caller{Door: TCP, UID: KnownUID(7)}, Actor{UID: 7, Door: TCP, Role: User}},
		{Caller{Door: TCP, UID: KnownUID(7), Token: true}, Actor{User: "token", UID: NoUID, Token: DaemonToken, Door: TCP, Role: Admin}},
	} {
		if got := c.caller.Actor(0); got != c.want {
			t.Errorf("%s is %+v, want %+v", fmt.Sprint(c.caller), got, c.want)
		}
	}
}
