package kinship

import (
	"encoding/json"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

func TestMandateReaches(t *testing.T) {
	const ada, bob = 1000, 1001
	own, roots, others := UIDs{ada, ada, ada}, UIDs{}, UIDs{bob, bob, bob}
	id := ID{PID: 7, Start: 70}
	for _, c := range []struct {
		name string
		in   Mandate
		of   UIDs
		want bool
	}{
		{"a user, their own", OfUser(ada), own, true},
		{"a user, another's", OfUser(ada), others, false},
		{"a user, root's", OfUser(ada), roots, false},
		{"a user, a set-user-id program that they run", OfUser(ada), UIDs{ada, 0, 0}, true},
		{"a user, one that can become theirs again", OfUser(ada), UIDs{0, 0, ada}, true},
		{"a user, one of root that acts as them", OfUser(ada), UIDs{0, ada, 0}, false},
		{"root, another's", OfUser(0), others, true},
		{"a user without a uid, root's", OfUser(access.NoUID), roots, false},
		{"nobody, root's", Mandate{}, roots, false},
		{"authority, root's", Authority(), roots, true},
		{"a user, the minder that is still root's", Mandate{User: gpu.Some(ada), Minder: id}, roots, true},
		{"a user, a process with the pid of the minder", Mandate{User: gpu.Some(ada), Minder: ID{PID: 7, Start: 71}}, roots, false},
	} {
		if got := c.in.Reaches(id, c.of); got != c.want {
			t.Errorf("%s: reached is %v", c.name, got)
		}
		text, err := json.Marshal(c.in)
		var again Mandate
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if err != nil || again != c.in {
			t.Errorf("%s: %s is read as %+v, %v", c.name, text, again, err)
		}
	}
}

func TestMandateOf(t *testing.T) {
	for _, c := range []struct {
		by   access.Actor
		want Mandate
	}{
		{access.Actor{}, Mandate{}},
		{access.Actor{UID: 1000, Door: access.Socket, Role: access.Viewer}, Mandate{}},
		{access.Actor{UID: 1000, Door: access.Socket, Role: access.User}, OfUser(1000)},
		{access.Actor{UID: access.NoUID, Token: "ci", Door: access.TCP, Role: access.User}, Mandate{}},
		{access.Actor{UID: 1000, Door: access.Socket, Role: access.Operator}, Authority()},
		{access.Actor{UID: access.NoUID, Token: "ops", Door: access.TCP, Role: access.Operator}, Authority()},
		{access.Daemon(), Authority()},
	} {
		if got := MandateOf(c.by); got != c.want {
			t.Errorf("%+v acts with %+v, want %+v", c.by, got, c.want)
		}
	}
}

func TestOneUser(t *testing.T) {
	own := UIDs{7, 7, 7}
	for _, c := range []struct {
		all  []UIDs
		want bool
	}{
		{nil, true}, {[]UIDs{own}, true}, {[]UIDs{own, own}, true},
		{[]UIDs{{}}, false}, {[]UIDs{own, {}}, false}, {[]UIDs{own, {8, 8, 8}}, false},
		{[]UIDs{{7, 0, 0}}, false}, {[]UIDs{own, {7, 7, 0}}, false},
	} {
		if got := OneUser(c.all); got != c.want {
			t.Errorf("%v are of one user: %v", c.all, got)
		}
	}
}
