package quota

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

func rules() *Rules {
	return &Rules{
		Generation: 7,
		Default:    Configured{Slots: gpu.Some(4), Memory: gpu.Some(gpu.MiB(100)), Service: "everybody"},
		Users: map[int]User{
			1: {"alice", Configured{Memory: gpu.Some(gpu.MiB(10)), NamedLeases: "false", Connections: gpu.Some(3)}},
		},
		Named: map[string]User{"token:ci": {"token:ci", Configured{Leases: gpu.Some(0)}}},
		Groups: map[int]Group{
			100: {"students", Configured{Memory: gpu.Some(gpu.MiB(20)), Leases: gpu.Some(2), NamedLeases: "false", Service: "teaching"}, Together{Slots: gpu.Some(9)}},
			200: {"staff", Configured{Memory: gpu.Some(gpu.MiB(500)), NamedLeases: "true", LongestTime: gpu.Some(time.Hour), Service: "science"}, Together{}},
		},
	}
}

func of(uid int, groups ...int) lease.Subject {
	return lease.Subject{Owner: lease.Owner{UID: uid}, Groups: groups, Sure: true}
}

// The own entry wins over groups, the largest of groups over the default, and the
// default over what berth has by itself, each limit for itself.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		who    string
		of     lease.Subject
		memory gpu.MiB
		source string
		slots  int
		leases int
		from   string
		named  bool
		pool   string
	}{
		{"anybody", of(9), 100, "users.default", 4, 1024, "default", true, "everybody"},
		{"a user with an entry", of(1), 10, "users.alice", 4, 1024, "default", false, "everybody"},
		{"and in groups", of(1, 100, 200), 10, "users.alice", 4, 2, "groups.students", false, "science"},
		{"a student", of(9, 5, 100), 20, "groups.students", 4, 2, "groups.students", false, "teaching"},
		{"staff", of(9, 200), 500, "groups.staff", 4, 1024, "default", true, "science"},
		{"in two groups", of(9, 100, 200), 500, "groups.staff", 4, 2, "groups.students", true, "science"},
		{"the other way round", of(9, 200, 100), 500, "groups.staff", 4, 2, "groups.students", true, "science"},
		{"in groups that nobody knows", lease.Subject{Owner: lease.Owner{UID: 9}}, 20, "groups.students", 4, 2, "groups.students", false, "everybody"},
		{"a token", lease.Subject{Owner: lease.Owner{UID: lease.NoUID, User: "token:ci"}}, 100, "users.default", 4, 0, "users.token:ci", true, "everybody"},
	} {
		l := rules().Of(c.of)
		named, _ := l.Named.Get()
		if l.Memory.Or(0) != c.memory || l.Memory.Source != c.source || l.Slots.Or(0) != c.slots || l.Leases.Or(-1) != c.leases ||
			l.Leases.Source != c.from || (named || !l.Named.Known()) != c.named || l.Service.Or("") != c.pool || l.Generation != 7 {
			t.Errorf("%s: %+v", c.who, l)
		}
	}
	if l := rules().Of(of(9, 100)); len(l.Together) != 1 || l.Together[0].Slots.Or(0) != 9 || l.Uncertain || l.Connections.Or(0) != Connections ||
		!slices.Equal(l.Groups, []string{"students"}) {
		t.Errorf("a student of %v has %+v together", l.Groups, l.Together)
	}
	if l := rules().Of(lease.Subject{Owner: lease.Owner{UID: 9}}); !l.Uncertain || l.LongestTime.Or(0) != time.Hour {
		t.Error("somebody whose groups are not known gets leases beside the limits of a group")
	}
	if l := new(Rules).Of(lease.Subject{Owner: lease.Owner{UID: 9}}); l.Uncertain || l.Memory.Known() || l.Waiting.Or(0) != 256 || l.Streams.Or(0) != Streams {
		t.Errorf("without any entry: %+v", l)
	}
}

// Each limit comes from its own setting, and of two groups the one that allows more counts.
func TestEveryLimit(t *testing.T) {
	all := func(n int) Configured {
		of, lasts := gpu.Some(n), gpu.Some(time.Duration(n)*time.Second)
		return Configured{
			Memory: gpu.Some(gpu.MiB(n)), Slots: of, Leases: of, Waiting: of, GPUs: of, RunningJobs: of, WaitingJobs: of, Connections: of, Streams: of,
			LongestWait: lasts, LongestTTL: lasts, LongestTime: lasts, Calls: gpu.Some(float64(n)),
		}
	}
	r := &Rules{Default: all(7), Groups: map[int]Group{1: {"a", all(8), Together{}}, 2: {"b", all(9), Together{}}}}
	for name, c := range map[string]struct {
		of   lease.Subject
		want int
	}{
		"anybody":       {of(5), 7},
		"in a group":    {of(5, 1), 8},
		"in two groups": {of(5, 1, 2), 9},
		"in which?":     {lease.Subject{Owner: lease.Owner{UID: 5}}, 7},
	} {
		l := r.Of(c.of)
		got := all(0)
		got.Memory, got.Slots, got.Leases, got.Waiting, got.GPUs = l.Memory.Opt, l.Slots.Opt, l.Leases.Opt, l.Waiting.Opt, l.GPUs.Opt
		got.RunningJobs, got.WaitingJobs, got.Connections, got.Streams = l.RunningJobs.Opt, l.WaitingJobs.Opt, l.Connections.Opt, l.Streams.Opt
		got.LongestWait, got.LongestTTL, got.LongestTime, got.Calls = l.LongestWait.Opt, l.LongestTTL.Opt, l.LongestTime.Opt, l.Calls.Opt
		if got != all(c.want) || l.Uncertain {
			t.Errorf("%s: %+v, want %d of each", name, got, c.want)
		}
	}
	if new(Rules).Grouped() || !r.Grouped() {
		t.Error("it matters which groups a user is in without any, or does not with some")
	}
}

func TestMostConnections(t *testing.T) {
	few := Configured{Connections: gpu.Some(7)}
	for name, r := range map[string]Rules{
		"of everybody":          {Default: few},
		"of a user and a group": {Users: map[int]User{1: {"alice", few}}, Groups: map[int]Group{100: {Name: "students"}}},
	} {
		if n := r.MostConnections(of(1)); n != 7 {
			t.Errorf("%s: %d", name, n)
		}
	}
	if n := new(Rules).MostConnections(of(1)); n != Connections {
		t.Errorf("without rules: %d", n)
	}
	if n := rules().MostConnections(of(1)); n != 3 {
		t.Errorf("alice: %d", n)
	}
}

func TestSubjectOf(t *testing.T) {
	for _, c := range []struct {
		actor  access.Actor
		groups []int
		sure   bool
	}{
		{access.Actor{UID: 7}, nil, false},
		{access.Actor{UID: 7}, []int{}, true},
		{access.Actor{UID: access.NoUID, User: "token:ci"}, nil, true},
	} {
		if s := SubjectOf(&c.actor, c.groups); s.Sure != c.sure || s.UID != c.actor.UID {
			t.Errorf("%+v is %+v", c.actor, s)
		}
	}
}
