package access

import (
	"fmt"
	"slices"
	"testing"
)

// Every combination of caller, door, place and failed lookup, for a daemon of
// root and for one of an ordinary user. Only the rows that are listed may do
// more than look; everything else has to come out as a viewer or less.
func TestRole(t *testing.T) {
	const daemonUser, other, named, demoted = 1000, 1001, 1002, 1003
	uids := map[string]UID{
		"root": KnownUID(0), "daemon": KnownUID(daemonUser), "other": KnownUID(other),
		"named": KnownUID(named), "demoted": KnownUID(demoted), "unknown": {},
	}
	want := func(daemon int, door Door, uid string, place Place) Role {
		trusted := uid == "root" || uid == "daemon" && daemon == daemonUser
		switch {
		case door == TCP && daemon != 0 && uid != "daemon":
			return Stranger
		case uid == "unknown", uid == "root" && place != Here, uid == "demoted":
			return Viewer
		case door == Socket && place == Here && trusted:
			return Admin
		case door == Socket && place == Here && uid == "named":
			return Operator
		}
		return User
	}
	for _, daemon := range []int{0, daemonUser} {
		rules := Rules{Daemon: daemon, Users: map[int]Given{named: {"named", Operator}, demoted: {"demoted", Viewer}}}
		for _, door := range []Door{Socket, TCP} {
			for name, uid := range uids {
				for _, place := range []Place{Unknown, Here, Elsewhere} {
					c := Caller{Door: door, UID: uid, Place: place}
					if got, want := rules.Standing(&c).Role, want(daemon, door, name, place); got != want {
						t.Errorf("daemon of %d, %s, %s in place %d is %v, want %v", daemon, door, name, place, got, want)
					}
					c.Shown = Credential{Kind: Token, Name: "grafana", Role: Scraper}
					if got := rules.Standing(&c).Role; got != Scraper {
						t.Errorf("daemon of %d, %s, %s in place %d with a token for a scraper is %v", daemon, door, name, place, got)
					}
				}
			}
		}
	}
}

// The own entry of a user decides, then the highest of the groups, then what
// everybody has.
func TestRoleOfGroups(t *testing.T) {
	rules := Rules{
		Users:  map[int]Given{7: {"eve", Viewer}},
		Groups: map[int]Given{100: {"students", Viewer}, 200: {"operators", Operator}, 300: {"users", User}},
	}
	for _, c := range []struct {
		uid    int
		groups []int
		others Role
		want   Role
		why    string
	}{
		{9, nil, Stranger, User, "every local user has it"},
		{9, nil, Viewer, Viewer, "every local user has it"},
		{9, []int{5}, Viewer, Viewer, "every local user has it"},
		{9, []int{100}, Stranger, Viewer, "the configuration gives it to the group students"},
		{9, []int{100, 200, 300}, Stranger, Operator, "the configuration gives it to the group operators"},
		{9, []int{200, 100}, Admin, Operator, "the configuration gives it to the group operators"},
		{7, []int{200}, Stranger, Viewer, "the configuration gives it to the user"},
		{0, []int{100}, Stranger, Admin, "root and the user that the daemon runs as are administrators on the Unix socket"},
	} {
		rules.Others = c.others
		caller := Caller{Door: Socket, UID: KnownUID(c.uid), Groups: c.groups, Place: Here}
		s := rules.Standing(&caller)
		if s.Role != c.want || s.Reason() != c.why {
			t.Errorf("uid %d in groups %v is %v (%s), want %v (%s)", c.uid, c.groups, s.Role, s.Reason(), c.want, c.why)
		}
		caller.Place = Elsewhere
		if got := rules.Standing(&caller).Role; got > User {
			t.Errorf("uid %d in a container is %v", c.uid, got)
		}
	}
}

func TestContainersThatNeedATokenHaveNoOther(t *testing.T) {
	rules := Rules{ContainersNeedToken: true, Users: map[int]Given{7: {"eve", Admin}}}
	for _, door := range []Door{Socket, TCP} {
		for _, uid := range []UID{{}, KnownUID(0), KnownUID(7), KnownUID(8)} {
			for _, place := range []Place{Unknown, Elsewhere} {
				c := Caller{Door: door, UID: uid, Place: place}
				if got := rules.Standing(&c); got.Role != Stranger || got.Cause != NeedsToken {
					t.Errorf("%v through %s is %v", uid, door, got.Role)
				}
				c.Shown = Credential{Kind: Token, Name: "driver", Role: Operator}
				if got := rules.Standing(&c).Role; got != Operator {
					t.Errorf("%v through %s with a token is %v", uid, door, got)
				}
			}
		}
	}
}

func TestUnknownDoorIsNobodys(t *testing.T) {
	for _, uid := range []UID{{}, KnownUID(0), KnownUID(7)} {
		if got := new(Rules).Standing(&Caller{UID: uid, Place: Here}).Role; got != Stranger {
			t.Errorf("%v through no door is %v", uid, got)
		}
	}
}

func TestRolesHaveNames(t *testing.T) {
	for r := Scraper; r <= Admin; r++ {
		if got, err := ParseRole(r.String()); err != nil || got != r {
			t.Errorf("role %d is called %q, which is %v, %v", int(r), r, got, err)
		}
	}
	for _, name := range []string{"", "stranger", "root", "Admin", "none"} {
		if r, err := ParseRole(name); err == nil || r != Stranger {
			t.Errorf("%q is the role %v", name, r)
		}
	}
	if fmt.Sprint(Role(-1), Admin+1, Stranger) != "none none stranger" {
		t.Error("a role that is none has a name")
	}
}

func TestEveryCauseHasAReason(t *testing.T) {
	seen := map[string]bool{}
	for cause := NotIdentified; cause <= NeedsToken; cause++ {
		reason := Standing{Cause: cause}.Reason()
		if seen[reason] {
			t.Errorf("cause %d says %q, as another does", cause, reason)
		}
		seen[reason] = true
	}
}

// A caller becomes an actor who is only as much as is known for certain.
func TestActorOfACaller(t *testing.T) {
	rules := Rules{Users: map[int]Given{8: {"eve", Viewer}}, Certificates: map[string]Role{"node7": Operator}}
	for _, c := range []struct {
		caller Caller
		want   Actor
	}{
		{Caller{}, Actor{User: "unknown", UID: NoUID}},
		{Caller{Door: TCP}, Actor{User: "unknown", UID: NoUID, Door: TCP, Role: Viewer}},
		{Caller{Door: Socket, UID: KnownUID(0), Place: Elsewhere}, Actor{User: "unknown", UID: NoUID, Door: Socket, Role: Viewer}},
		{Caller{Door: Socket, UID: KnownUID(0), Place: Here}, Actor{UID: 0, Door: Socket, Role: Admin}},
		{Caller{Door: Socket, UID: KnownUID(8), Place: Here}, Actor{UID: 8, Door: Socket, Role: Viewer}},
		{Caller{Door: TCP, UID: KnownUID(7)}, Actor{UID: 7, Door: TCP, Role: User}},
		{Caller{Door: TCP, UID: KnownUID(7), Shown: Credential{Kind: Token, Name: DaemonToken, Role: Admin}},
			Actor{User: "token", UID: NoUID, Token: DaemonToken, Door: TCP, Role: Admin}},
		{Caller{Door: Socket, UID: KnownUID(0), Place: Here, Shown: Credential{Kind: Token, Name: "ci", Role: User, Service: "builds"}},
			Actor{User: "token:ci", UID: NoUID, Token: "ci", Door: Socket, Role: User, Service: "builds"}},
		// A bound token is its user, with its own role, whoever shows it.
		{Caller{Door: Socket, UID: KnownUID(0), Place: Here, Shown: Credential{Kind: Token, Name: "ci", Role: User, As: "ada", UID: KnownUID(7)}},
			Actor{User: "ada", UID: 7, Token: "ci", Door: Socket, Role: User}},
		{Caller{Door: TCP, Shown: Credential{Kind: Token, Name: "ci", Role: Operator, As: "eve", UID: KnownUID(8)}},
			Actor{User: "eve", UID: 8, Token: "ci", Door: TCP, Role: Operator}},
		{Caller{Door: TCP, Shown: Credential{Kind: Certificate, Name: "node7", Role: Admin}},
			Actor{User: "cert:node7", UID: NoUID, Door: TCP, Role: Operator}},
		{Caller{Door: TCP, Shown: Credential{Kind: Certificate, Name: "node8"}},
			Actor{User: "cert:node8", UID: NoUID, Door: TCP, Role: Viewer}},
	} {
		if got := rules.Actor(&c.caller); got != c.want {
			t.Errorf("%s is %+v, want %+v", fmt.Sprint(c.caller), got, c.want)
		}
	}
}

// Why names every entry that speaks of a caller, the deciding one first.
func TestWhy(t *testing.T) {
	rules := Rules{
		Users:  map[int]Given{7: {"eve", Viewer}, 8: {"olga", Operator}},
		Groups: map[int]Given{100: {"students", Viewer}, 200: {"operators", Operator}, 300: {"limits", Stranger}, 400: {"more-operators", Operator}},
	}
	for _, c := range []struct {
		name   string
		caller Caller
		want   []string
	}{
		{"two groups that differ", Caller{Door: Socket, UID: KnownUID(9), Groups: []int{200, 100}, Place: Here},
			[]string{"the configuration gives it to the group operators", "the group students gives viewer, and the higher role holds"}},
		{"two groups that agree", Caller{Door: Socket, UID: KnownUID(9), Groups: []int{200, 400, 400}, Place: Here},
			[]string{"the configuration gives it to the group operators", "the group more-operators gives operator"}},
		{"an entry of the user", Caller{Door: Socket, UID: KnownUID(7), Groups: []int{200}, Place: Here},
			[]string{"the configuration gives it to the user", "the group operators gives operator, and the entry of the user is stronger"}},
		{"a group with limits only", Caller{Door: Socket, UID: KnownUID(9), Groups: []int{300}, Place: Here}, []string{"every local user has it"}},
		{"an operator over TCP", Caller{Door: TCP, UID: KnownUID(8), Place: Here},
			[]string{"over TCP without a token, and from a container, nobody has more than the role user", "the configuration gives operator on the Unix socket"}},
		{"a token", Caller{Door: TCP, Shown: Credential{Kind: Token, Name: "a", Role: Viewer}}, []string{"the token gives it"}},
		{"a bound token", Caller{Door: TCP, Shown: Credential{Kind: Token, Name: "a", Role: User, As: "eve", UID: KnownUID(7)}},
			[]string{"the token gives it", "an administrator bound the token to the user eve"}},
		{"nobody", Caller{Door: TCP}, []string{"the kernel does not say who the caller is"}},
	} {
		if got := rules.Why(&c.caller); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
