package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Ref names a job or one of its tasks by number.
type Ref struct {
	Number int64 `json:"number"`
	Task   int   `json:"task,omitempty"` // number of the task
	One    bool  `json:"one,omitempty"`  // one task is meant, and not the whole job
}

// ID is the id of a job or of a task, as people write it.
type ID struct {
	Name string
	Ref
}

// ParseID reads an id: NAME-NUMBER, with .N behind it for a task.
func ParseID(text string) (ID, error) {
	wrong := func() (ID, error) {
		return ID{}, fmt.Errorf("%q is not the id of a job; ids look like train-17, and train-17.3 for a task", text)
	}
	dash := strings.LastIndexByte(text, '-')
	if dash < 1 || NameProblem(text[:dash]) != "" {
		return wrong()
	}
	id := ID{Name: text[:dash]}
	number, task, one := strings.Cut(text[dash+1:], ".")
	n, fine := digits(number, 18)
	if !fine || n == 0 {
		return wrong()
	}
	id.Number, id.One = n, one
	if one {
		t, fine := digits(task, 10)
		if !fine || t > MostNumber {
			return wrong()
		}
		id.Task = int(t)
	}
	return id, nil
}

// digits reads a number that is written in the one way that String writes it.
func digits(text string, most int) (int64, bool) {
	if text == "" || len(text) > most || len(text) > 1 && text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

func (id ID) String() string {
	text := id.Name + "-" + strconv.FormatInt(id.Number, 10)
	if id.One {
		text += "." + strconv.Itoa(id.Task)
	}
	return text
}

// NameProblem returns what is wrong with the name of a job; "" if nothing is.
func NameProblem(name string) string {
	if name == "" || len(name) > NameLength {
		return fmt.Sprintf("must have 1 to %d characters", NameLength)
	}
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_' && c != '.') {
			return "may have letters, digits, - _ and . and begins with a letter or digit"
		}
	}
	return ""
}

// Array is the numbers of the tasks of a job, in the order in which they begin. It costs
// as much memory as it has ranges.
type Array []Range

// Range is First, First+Step and so on, up to Last.
type Range struct {
	First int `json:"first"`
	Last  int `json:"last"`
	Step  int `json:"step"`
}

func (r Range) len() int { return (r.Last-r.First)/r.Step + 1 }

// ParseArray reads an array such as 1-20, 1,3,7 or 0-100:10. A % with a number at the end
// is how many tasks run at a time at most, and 0 means any number.
func ParseArray(text string) (a Array, most int, err error) {
	list, limit, limited := strings.Cut(text, "%")
	if limited {
		n, fine := digits(limit, 6)
		if !fine || n == 0 || n > MostTasks {
			return nil, 0, fmt.Errorf("%q has no number of tasks from 1 to %d after %%, as in 1-20%%4", text, MostTasks)
		}
		most = int(n)
	}
	total := 0
	for part := range strings.SplitSeq(list, ",") {
		r, fine := parseRange(part)
		if !fine {
			return nil, 0, fmt.Errorf("%q is no list of task numbers; write 1-20, 1,3,7 or 0-100:10, with numbers up to %d", text, MostNumber)
		}
		if total += r.len(); total > MostTasks {
			return nil, 0, fmt.Errorf("%q has more than %d tasks; submit several jobs", text, MostTasks)
		}
		a = append(a, r)
	}
	if twice, found := a.twice(total); found {
		return nil, 0, fmt.Errorf("%q has the task %d twice", text, twice)
	}
	return a, most, nil
}

func parseRange(text string) (Range, bool) {
	text, step, stepped := strings.Cut(text, ":")
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	from, fine := digits(first, 10)
	to, also := digits(last, 10)
	by := int64(1)
	if stepped {
		var good bool
		if by, good = digits(step, 10); !good || by == 0 || !ranged {
			return Range{}, false
		}
	}
	if !fine || !also || to < from || to > MostNumber || by > MostNumber {
		return Range{}, false
	}
	return Range{First: int(from), Last: int(to), Step: int(by)}, true
}

// twice returns a number that the array has more than once.
func (a Array) twice(total int) (number int, found bool) {
	all := a.numbers(total)
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			return all[i], true
		}
	}
	return 0, false
}

// numbers returns all numbers of the array, of which there are so many.
func (a Array) numbers(total int) []int {
	all := make([]int, 0, total)
	for _, r := range a {
		for i := range r.len() {
			all = append(all, r.First+i*r.Step)
		}
	}
	return all
}

// Len returns how many numbers the array has.
func (a Array) Len() int {
	n := 0
	for _, r := range a {
		n += r.len()
	}
	return n
}

// At returns the number at an index, which must be below Len.
func (a Array) At(index int) int {
	for _, r := range a {
		if n := r.len(); index >= n {
			index -= n
			continue
		}
		return r.First + index*r.Step
	}
	panic("job: an array has no such index")
}

// Index returns the index of a number.
func (a Array) Index(number int) (index int, known bool) {
	for _, r := range a {
		if number >= r.First && number <= r.Last && (number-r.First)%r.Step == 0 {
			return index + (number-r.First)/r.Step, true
		}
		index += r.len()
	}
	return 0, false
}

// Only returns the array of those of its numbers that keep allows, given their indexes.
func (a Array) Only(keep func(index int) bool) Array {
	var out Array
	for i, n := range a.numbers(a.Len()) {
		if !keep(i) {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].Step == 1 && out[last].Last+1 == n {
			out[last].Last = n
			continue
		}
		out = append(out, Range{First: n, Last: n, Step: 1})
	}
	return out
}
