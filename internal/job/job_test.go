package job

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
)

func TestIDs(t *testing.T) {
	for text, want := range map[string]ID{
		"train-17":                             {Name: "train", Ref: Ref{Number: 17}},
		"train-17.3":                           {Name: "train", Ref: Ref{Number: 17, Task: 3, One: true}},
		"train-17.0":                           {Name: "train", Ref: Ref{Number: 17, One: true}},
		"my-long.name-1":                       {Name: "my-long.name", Ref: Ref{Number: 1}},
		"a-2-3":                                {Name: "a-2", Ref: Ref{Number: 3}},
		"a-1":                                  {Name: "a", Ref: Ref{Number: 1}},
		"zAZ09-1":                              {Name: "zAZ09", Ref: Ref{Number: 1}},
		"job-999999999999999999":               {Name: "job", Ref: Ref{Number: 999999999999999999}},
		"train-1.1000000000":                   {Name: "train", Ref: Ref{Number: 1, Task: MostNumber, One: true}},
		strings.Repeat("a", NameLength) + "-1": {Name: strings.Repeat("a", NameLength), Ref: Ref{Number: 1}},
		"job-99999999999":                      {Name: "job", Ref: Ref{Number: 99999999999}},
	} {
		got, err := ParseID(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q is %+v (%s), %v; want %+v", text, got, got, err, want)
		}
	}
	for _, text := range []string{"", "train", "-17", "train-", "train-x", "train-017", "train-0", "train-17.", "train-17.03", "train-17.x", "train-17.1.2",
		"tr ain-1", "../x-1", "train-1/2", "-train-1", "train-9999999999999999999", "train-1000000000000000000",
		"ü-1", "train-+1", "train-1.2000000000", strings.Repeat("a", 65) + "-1"} {
		if got, err := ParseID(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func TestArrays(t *testing.T) {
	for _, c := range []struct {
		text string
		want []int
		most int
	}{
		{"1-5", []int{1, 2, 3, 4, 5}, 0},
		{"7,1,3", []int{7, 1, 3}, 0},
		{"0-100:25%2", []int{0, 25, 50, 75, 100}, 2},
		{"0-9:4,100", []int{0, 4, 8, 100}, 0},
		{"5", []int{5}, 0},
		{"1-9:4", []int{1, 5, 9}, 0},
		{"1-3%100000", []int{1, 2, 3}, MostTasks},
		{"0-1000000000:1000000000", []int{0, MostNumber}, 0},
	} {
		a, most, err := ParseArray(c.text)
		if err != nil || most != c.most {
			t.Errorf("%s: at most %d, %v", c.text, most, err)
			continue
		}
		var got []int
		for i := range a.Len() {
			got = append(got, a.At(i))
			if index, known := a.Index(a.At(i)); !known || index != i {
				t.Errorf("%s: the index of %d is %d, want %d", c.text, a.At(i), index, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s is %v, want %v", c.text, got, c.want)
		}
		if _, known := a.Index(6); known {
			t.Errorf("%s has 6", c.text)
		}
	}
	for _, text := range []string{"", "1-", "-1", "5-1", "a", "1-5%", "1-5%0", "1-5%x", "1,,2", "1-3,2", "1-5:0", "5:2", "1-100001", "0-2000000000", "1-5%4%4", "01-5", "1 - 5", "0-1000000000:10000,0"} {
		if a, _, err := ParseArray(text); err == nil {
			t.Errorf("%q is %v", text, a)
		}
	}
	some, _, _ := ParseArray("1-20")
	odd := some.Only(func(i int) bool { return i < 3 || i == 10 })
	if got := fmt.Sprint(odd); got != "[{1 3 1} {11 11 1}]" {
		t.Errorf("some of them are %s", got)
	}
}

// A hundred thousand tasks cost as much as one, in memory and in the journal.
func TestManyTasksAreSmall(t *testing.T) {
	a, _, err := ParseArray("1-100000")
	if err != nil {
		t.Fatal(err)
	}
	written, _ := json.Marshal(Spec{Array: a})
	if len(a) != 1 || len(written) > 500 {
		t.Errorf("they take %d ranges and %d bytes", len(a), len(written))
	}
}

func TestSweep(t *testing.T) {
	s := Spec{
		Name: "train", Number: 17, Command: []string{"python", "train.py", "--lr={lr}", "{bs}{bs}", "{other}", "{}${lr}"},
		Params: []api.JobParam{{Name: "lr", Values: []string{"0.1", "{bs}"}}, {Name: "bs", Values: []string{"32", "64", "128"}}},
	}
	var all []string
	longest := 0
	for i := range s.Tasks() {
		longest = max(longest, len(strings.Join(s.CommandOf(i), "")))
		all = append(all, s.TaskID(i)+" "+strings.Join(s.CommandOf(i)[2:], " ")+" "+strings.Join(s.Variables(i), " "))
		if index, known := s.TaskIndex(s.TaskNumber(i)); !known || index != i {
			t.Errorf("task %d has index %d", s.TaskNumber(i), index)
		}
	}
	want := []string{
		"train-17.1 --lr=0.1 3232 {other} {}${lr} BERTH_JOB=train-17 BERTH_TASK=1 BERTH_PARAM_lr=0.1 BERTH_PARAM_bs=32",
		"train-17.2 --lr=0.1 6464 {other} {}${lr} BERTH_JOB=train-17 BERTH_TASK=2 BERTH_PARAM_lr=0.1 BERTH_PARAM_bs=64",
		"train-17.3 --lr=0.1 128128 {other} {}${lr} BERTH_JOB=train-17 BERTH_TASK=3 BERTH_PARAM_lr=0.1 BERTH_PARAM_bs=128",
		"train-17.4 --lr={bs} 3232 {other} {}${lr} BERTH_JOB=train-17 BERTH_TASK=4 BERTH_PARAM_lr={bs} BERTH_PARAM_bs=32", // a value is not replaced again
		"train-17.5 --lr={bs} 6464 {other} {}${lr} BERTH_JOB=train-17 BERTH_TASK=5 BERTH_PARAM_lr={bs} BERTH_PARAM_bs=64",
		"train-17.6 --lr={bs} 128128 {other} {}${lr} BERTH_JOB=train-17 BERTH_TASK=6 BERTH_PARAM_lr={bs} BERTH_PARAM_bs=128",
	}
	if !slices.Equal(all, want) {
		t.Errorf("the tasks are\n%s\nwant\n%s", strings.Join(all, "\n"), strings.Join(want, "\n"))
	}
	for _, number := range []int{0, 7} {
		if _, known := s.TaskIndex(number); known {
			t.Errorf("it has a task %d", number)
		}
	}
	shell := Spec{Command: []string{"{bs}", "${bs}"}, Params: s.Params}
	if got, want := shell.LongestCommand(), len("128${bs}"); got != want {
		t.Errorf("with a variable of a shell the longest command has %d bytes, want %d", got, want)
	}
	if got := s.LongestCommand(); got != longest {
		t.Errorf("the longest command has %d bytes, want %d", got, longest)
	}
	s.Array = Array{{First: 2, Last: 2, Step: 1}, {First: 6, Last: 6, Step: 1}} // some of them again
	if s.Tasks() != 2 || s.TaskID(1) != "train-17.6" || s.ParamValues(1)["bs"] != "128" || s.ParamValues(0)["lr"] != "0.1" {
		t.Errorf("some of the combinations: %d tasks, %s, %v", s.Tasks(), s.TaskID(1), s.ParamValues(1))
	}
}

func TestNamesOfLogsAndRuns(t *testing.T) {
	one := Spec{Name: "train", Number: 17}
	many := Spec{Name: "train", Number: 17, Array: Array{{First: 5, Last: 9, Step: 2}}}
	for _, c := range [][2]string{
		{one.Run(0, 1), "17.0.1"},
		{many.Run(1, 12), "17.7.12"},
		{one.DefaultLog(0, 1), "berth-train-17.log"},
		{one.DefaultLog(0, 2), "berth-train-17-try2.log"},
		{many.DefaultLog(2, 1), "berth-train-17.9.log"},
		{many.LogName("out/%j-%n-100%%.txt", 0, 3), "out/train-17.5-3-100%.txt"},
		{many.LogName("%%j", 0, 3), "%j"},
		{many.LogName("", 0, 3), ""},
	} {
		if c[0] != c[1] {
			t.Errorf("it is %s, want %s", c[0], c[1])
		}
	}
}

// A spec and a task come back from the journal as they were written.
func TestTheJournalKeepsAll(t *testing.T) {
	for _, value := range []any{&Spec{}, &Task{}} {
		kind := reflect.TypeOf(value).Elem()
		for i := range kind.NumField() {
			if tag := kind.Field(i).Tag.Get("json"); tag == "" || tag == "-" {
				t.Errorf("%s.%s is not written", kind.Name(), kind.Field(i).Name)
			}
		}
	}
}

// docs/develop/jobs.md draws the table.
func TestThePageDrawsTheTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/develop/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	var drawn strings.Builder
	drawn.WriteString("| in state | comes | becomes | and the keeper |\n|---|---|---|---|\n")
	for _, from := range States() {
		for _, event := range events {
			to, acts, changes := Next(from, event)
			if !changes {
				continue
			}
			list := make([]string, len(acts))
			for i, act := range acts {
				list[i] = string(act)
			}
			fmt.Fprintf(&drawn, "| %s | %s | %s | %s |\n", from, event, to, strings.Join(list, ", "))
		}
	}
	if !strings.Contains(string(page), drawn.String()) {
		t.Errorf("docs/develop/jobs.md does not have this table:\n%s", drawn.String())
	}
	drawn.Reset()
	drawn.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, from := range States() {
		for _, to := range States() {
			var by []string
			for _, event := range events {
				if next, _, changes := Next(from, event); changes && next == to {
					by = append(by, string(event))
				}
			}
			if len(by) > 0 {
				fmt.Fprintf(&drawn, "  %s --> %s: %s\n", from, to, strings.Join(by, ", "))
			}
		}
	}
	if drawn.WriteString("```\n"); !strings.Contains(string(page), drawn.String()) {
		t.Errorf("docs/develop/jobs.md does not have this picture:\n%s", drawn.String())
	}
}

// events has every event, in the order of its constant.
var events = []Event{Hold, Unhold, Cancel, Prevent, Grant, Order, Succeed, Fail, Retry, Requeue, Exhaust, Expire, Lose, Again}
