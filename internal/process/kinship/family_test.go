package kinship

import (
	"slices"
	"testing"
)

// family is written as pairs: a process and its parent.
func family(pairs ...[2]int) Family {
	f := Family{}
	for _, p := range pairs {
		f[p[0]] = Relative{id(p[0]), p[1]}
	}
	return f
}

func pids(ids []ID) []int {
	list := []int{}
	for _, id := range ids {
		list = append(list, id.PID)
	}
	slices.Sort(list)
	return list
}

// A machine: the daemon 50 has started 51; 10 has a child 20 with a child 30,
// and 40 has left 10.
var machine = family([2]int{1, 0}, [2]int{50, 1}, [2]int{51, 50}, [2]int{10, 1}, [2]int{20, 10}, [2]int{30, 20}, [2]int{40, 1})

func TestTree(t *testing.T) {
	for name, test := range map[string]struct{ roots, want []int }{
		"a tree":         {[]int{10}, []int{10, 20, 30}},
		"a leaf":         {[]int{30}, []int{30}},
		"two, one in it": {[]int{10, 20, 40}, []int{10, 20, 30, 40}},
		"nobody":         {nil, []int{}},
		"one that ended": {[]int{99}, []int{}},
	} {
		if got := pids(machine.Tree(line(test.roots...))); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	if got := machine.Tree([]ID{{PID: 10, Start: 999}}); len(got) != 0 {
		t.Errorf("another process with the pid has %v", got)
	}
	circle := family([2]int{2, 3}, [2]int{3, 2})
	if got := circle.Tree(line(9)); len(got) != 0 || circle.line(id(2))[id(9)] {
		t.Errorf("in a circle: %v", got)
	}
}

func TestMembers(t *testing.T) {
	own := line(50, 1)
	for name, test := range map[string]struct {
		holder              int
		roots, others, want []int
	}{
		"its tree":                       {10, []int{10}, nil, []int{10, 20, 30}},
		"and what has left it":           {10, []int{10, 40}, nil, []int{10, 20, 30, 40}},
		"without a lease inside it":      {10, []int{10}, []int{20}, []int{10}},
		"inside another lease":           {20, []int{20}, []int{10}, []int{20, 30}},
		"between two":                    {20, []int{20}, []int{10, 30}, []int{20}},
		"a holder that has ended":        {99, []int{99, 40}, []int{10}, []int{40}},
		"the daemon, and what it starts": {50, []int{50}, nil, []int{}},
		"an ancestor of the daemon":      {1, []int{1}, nil, []int{10, 20, 30, 40}},
		"what the daemon has started":    {51, []int{51}, nil, []int{51}},
	} {
		others := line(test.others...)
		if got := pids(machine.Members(id(test.holder), line(test.roots...), others, own)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
		if !slices.Equal(others, line(test.others...)) {
			t.Errorf("%s: the others became %v", name, others)
		}
	}
}
