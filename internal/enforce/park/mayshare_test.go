package park

import (
	"testing"

	"github.com/berth-gpu/berth/internal/device/move"
)

func TestMayShare(t *testing.T) {
	line := func(pids ...int) (list []move.Process) {
		for _, pid := range pids {
			list = append(list, move.Process{PID: pid, Start: uint64(pid)})
		}
		return list
	}
	ours := func(pids ...int) User { return User{Line: line(pids...), Ours: true} }
	other := func(pids ...int) User { return User{Line: line(pids...)} }
	const relative = "process 50, which is related to its process 12, uses the device outside of the lease, and may share memory with it"
	again := other(50, 9, 1)
	again.Line[1].Start++ // another process with the pid of the parent
	for name, c := range map[string]struct {
		on   []User
		want string
	}{
		"nobody":                       {nil, ""},
		"one alone":                    {[]User{ours(10, 9, 1)}, ""},
		"two":                          {[]User{ours(10, 9, 1), ours(11, 10, 9, 1)}, "2 of its processes use the device, such as 10 and 11, and may share memory there"},
		"one that has ended":           {[]User{ours(12, 10, 9, 1), {}, {Ours: true}}, ""},
		"a stranger":                   {[]User{ours(12, 10, 9, 1), other(50, 40, 1)}, ""},
		"a stranger beside":            {[]User{other(50, 40, 1), other(51, 50, 40, 1)}, ""},
		"a parent":                     {[]User{ours(12, 50, 10, 9, 1), other(50, 10, 9, 1)}, relative},
		"an ancestor above the holder": {[]User{ours(12, 10, 9, 50, 8, 1), other(50, 8, 1)}, relative},
		"a child":                      {[]User{ours(12, 10, 9, 1), other(50, 12, 10, 9, 1)}, relative},
		"a descendant":                 {[]User{ours(12, 10, 9, 1), other(50, 49, 12, 10, 9, 1)}, relative},
		"a sibling":                    {[]User{ours(12, 11, 10, 9, 1), other(50, 11, 10, 9, 1)}, relative},
		"a sibling of the holder":      {[]User{ours(12, 11, 10, 9, 8, 1), other(50, 9, 8, 1)}, relative},
		"a child of such a sibling":    {[]User{ours(12, 11, 10, 9, 8, 1), other(50, 40, 9, 8, 1)}, relative},
		"a cousin":                     {[]User{ours(12, 10, 9, 8, 1), other(50, 40, 8, 1)}, ""},
		"another parent with its pid":  {[]User{ours(12, 10, 9, 1), again}, ""},
		"the holder belongs to init":   {[]User{ours(12, 10, 1), other(50, 1)}, ""},
		"without a holder, a sibling":  {[]User{ours(12, 30, 29, 1), other(50, 30, 29, 1)}, relative},
		"without a holder, an uncle":   {[]User{ours(12, 30, 29, 1), other(50, 29, 1)}, ""},
		"the line ends at the holder":  {[]User{ours(12, 10), other(50, 10)}, relative},
		"another job of the daemon":    {[]User{ours(12, 10, 77, 1), other(50, 40, 77, 1)}, ""},
		"the holder itself, no line":   {[]User{ours(12), other(50)}, ""},
	} {
		if got := MayShare(line(10)[0], 77, c.on); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
