package access

import (
	"fmt"
	"testing"
)

// Every combination of caller, door, place and failed lookup, for a daemon of
// root and for one of an ordinary user. Only the rows that are listed may do
// more than look; everything else has to come out as a viewer or less.
func TestRole(t *testing.T) {
	const daemonUser, other = 1000, 1001
	type row struct {
		daemon int
		door   Door
		token  bool
		uid    string
		place  Place
	}
	uids := map[string]UID{
		"root": KnownUID(0), "daemon": KnownUID(daemonUser), "other": KnownUID(other), "unknown": {},
	}
	want := func(r row) Role {
		switch {
		case r.token:
			return Admin
		case r.daemon == 0 && r.door == Socket:
			switch r {
			case row{0, Socket, false, "root", Here}:
				return Admin
			case row{0, Socket, false, "daemon", Here}, row{0, Socket, false, "daemon", Elsewhere}, row{0, Socket, false, "daemon", Unknown},
				row{0, Socket, false, "other", Here}, row{0, Socket, false, "other", Elsewhere}, row{0, Socket, false, "other", Unknown}:
				return User
			}
			return Viewer
		case r.daemon == 0 && r.door == TCP:
			switch r {
			case row{0, TCP, false, "root", Here},
				row{0, TCP, false, "daemon", Here}, row{0, TCP, false, "daemon", Elsewhere}, row{0, TCP, false, "daemon", Unknown},
				row{0, TCP, false, "other", Here}, row{0, TCP, false, "other", Elsewhere}, row{0, TCP, false, "other", Unknown}:
				return User
			}
			return Viewer
		case r.door == Socket:
			switch r {
			case row{daemonUser, Socket, false, "root", Here}, row{daemonUser, Socket, false, "daemon", Here}:
				return Admin
			case row{daemonUser, Socket, false, "daemon", Elsewhere}, row{daemonUser, Socket, false, "daemon", Unknown},
				row{daemonUser, Socket, false, "other", Here}, row{daemonUser, Socket, false, "other", Elsewhere}, row{daemonUser, Socket, false, "other", Unknown}:
				return User
			}
			return Viewer
		case r.door == TCP:
			switch r {
			case row{daemonUser, TCP, false, "daemon", Here}, row{daemonUser, TCP, false, "daemon", Elsewhere}, row{daemonUser, TCP, false, "daemon", Unknown}:
				return User
			}
			return Stranger
		}
		return Viewer
	}
	for _, daemon := range []int{0, daemonUser} {
		for _, door := range []Door{Socket, TCP} {
			for _, token := range []bool{false, true} {
				for name, uid := range uids {
					for _, place := range []Place{Unknown, Here, Elsewhere} {
						r := row{daemon, door, token, name, place}
						got := Caller{Door: door, Token: token, UID: uid, Place: place}.Role(daemon)
						if got != want(r) {
							t.Errorf("%+v is %v, want %v", r, got, want(r))
						}
					}
				}
			}
		}
	}
}

func TestUnknownDoorIsNobodys(t *testing.T) {
	for _, uid := range []UID{{}, KnownUID(0), KnownUID(7)} {
		if got := (Caller{UID: uid, Place: Here}).Role(0); got > Viewer {
			t.Errorf("%v through no door is %v", uid, got)
		}
	}
}

func TestRolesHaveNames(t *testing.T) {
	for r := Stranger; r <= Admin; r++ {
		if fmt.Sprint(r) == "" {
			t.Errorf("role %d has no name", int(r))
		}
	}
}
