package keeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/lease"
)

// plainly compares all fields of values, also those of gpu.Opt.
var plainly = cmp.Exporter(func(t reflect.Type) bool { return t != reflect.TypeFor[time.Time]() })

// fill gives every field below v a value that is not zero, another one each.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n) * -1_000_003)
	case reflect.Uint64:
		v.SetUint(math.MaxInt64 - uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 7)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(*n), 987654321).In(time.FixedZone("", 60**n))))
			return
		}
		for i := range v.NumField() {
			f := v.Field(i)
			fill(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem(), n)
		}
	default:
		panic(fmt.Sprintf("this test knows no %v", v.Type()))
	}
}

// collected returns the jobs of a list.
func collected(k *Keeper, q Query) []Shown {
	found, _ := k.List(q)
	return slices.Collect(found)
}

// Entries are written and read as encoding/json does.
func TestEntries(t *testing.T) {
	n := 0
	var s job.Spec
	fill(reflect.ValueOf(&s).Elem(), &n)
	some := tasks{Number: 7, Last: 3}
	fill(reflect.ValueOf(&some.Task).Elem(), &n)
	var c setting
	fill(reflect.ValueOf(&c).Elem(), &n)
	all := []entry{{Submit: &s}, {Tasks: &some}, {Change: &c}, {Forget: 7}, {Tasks: &tasks{}}, {Change: &setting{}},
		{Submit: &job.Spec{Command: []string{"", "ü\n", "<"}, After: make([]job.Ref, 2), Lease: api.LeaseRequest{Slots: gpu.Some(0), TTL: gpu.Some(0.0)}}}}
	for _, each := range history(4, 2) {
		var e entry
		if err := json.Unmarshal(each.Data, &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	for _, e := range all {
		marshalled, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		var want, quick, slow entry
		if err := errors.Join(json.Unmarshal(marshalled, &want), json.Unmarshal(e.text(), &slow), quick.read(marshalled)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(marshalled, []byte(`\`)) && !entries.Read(marshalled, &quick) {
			t.Errorf("%s is left to encoding/json", marshalled)
		}
		for _, got := range []entry{quick, slow} {
			if diff := cmp.Diff(want, got, plainly); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
	}
}

// A job looks the same after it was packed, to those who read it and in the journal.
func TestAPackedJobLooksTheSame(t *testing.T) {
	n := 0
	at := time.Date(2026, 1, 31, 12, 0, 0, 123456789, time.UTC)
	ended := func(s job.State, after time.Duration) *job.Task {
		var t job.Task
		fill(reflect.ValueOf(&t).Elem(), &n)
		t.State, t.Ended = s, at.Add(after)
		return &t
	}
	plain := job.Spec{Number: 7, Name: "a", UID: 1, User: "ada", Command: []string{"true"}, Submitted: at}
	many := job.Spec{Name: "b", Array: job.Array{{First: 3, Last: 15, Step: 3}}}
	fill(reflect.ValueOf(&many.Lease).Elem(), &n)
	many.Number, many.User, many.UID, many.Command, many.Environment = 9, "ada", 1, []string{"echo", "{x}"}, "1-abc"
	many.After, many.Hold, many.Begin = []job.Ref{{Number: 7}}, true, at
	params := many
	params.Array, params.Params, params.Number, params.User, params.UID = nil, []api.JobParam{{Name: "x", Values: []string{"1", "2"}}, {Name: "y", Values: []string{"a"}}}, 12, "bob", 2

	k := recall(t, t.TempDir(), nil)
	var all []*kept
	for _, one := range []struct {
		spec  *job.Spec
		tasks []*job.Task
	}{
		{&plain, []*job.Task{ended(job.Done, 1)}},
		{&many, []*job.Task{ended(job.Done, 5), ended(job.Failed, 9), ended(job.Cancelled, 2), nil, ended(job.Lost, 3)}},
		{&params, []*job.Task{ended(job.TimedOut, 4), ended(job.Done, 4)}},
	} {
		j := k.add(one.spec, 1000)
		for i, t := range one.tasks {
			if t == nil { // cancelled with the one before it
				t = one.tasks[i-1]
			}
			k.put(j, i, i, t)
		}
		j.unheld, j.priority = at, 5
		all = append(all, j)
	}
	type sight struct {
		Jobs    []Shown
		Some    [][]Shown
		Tasks   [][]Shown
		One     []Shown
		Specs   []job.Spec
		Endings []job.Ending
		Sum     map[job.State]int
	}
	look := func() (s sight) {
		s.Jobs = collected(k, Query{Most: 100})
		for _, q := range []Query{{Users: []string{"ada"}}, {Users: []string{"2"}}, {States: []string{"failed"}}, {States: []string{"waiting", "lost"}}, {Since: at.Add(4)}, {Before: 9}} {
			q.Most = 100
			s.Some = append(s.Some, collected(k, q))
		}
		for _, j := range all {
			s.Tasks = append(s.Tasks, slices.Collect(k.Tasks(j.Number)))
			_, spec, err := k.Seek(j.Spec.ID())
			one, failed := k.Show(job.Ref{Number: j.Number, Task: j.TaskNumber(0), One: true})
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			s.Specs, s.One = append(s.Specs, *spec), append(s.One, one)
			for i := range j.tasks {
				ending, _ := k.endingOf(job.Ref{Number: j.Number, Task: j.TaskNumber(i), One: true})
				s.Endings = append(s.Endings, ending)
			}
			ending, _ := k.endingOf(job.Ref{Number: j.Number})
			s.Endings = append(s.Endings, ending)
		}
		s.Sum = k.Usage().Tasks
		return s
	}
	entries := func() (text []string) {
		for each := range entriesOf(k.present()) {
			text = append(text, string(each))
		}
		return text
	}
	before, written := look(), entries()
	for _, j := range all {
		k.retire(j)
	}
	if len(k.jobs) != 0 || len(k.past) != len(all) || k.endedSum != 8 {
		t.Fatalf("%d jobs, %d that have ended, %d tasks", len(k.jobs), len(k.past), k.endedSum)
	}
	noCount := cmpopts.IgnoreMapEntries(func(_ job.State, n int) bool { return n == 0 })
	if diff := cmp.Diff(before, look(), plainly, noCount); diff != "" {
		t.Errorf("(-before +packed)\n%s", diff)
	}
	if diff := cmp.Diff(written, entries()); diff != "" {
		t.Errorf("the journal (-before +packed)\n%s", diff)
	}
	s := all[1].setting()
	was := slices.Index(written, string((&entry{Change: s}).text()))
	s.Held, s.Priority = !s.Held, -3
	written[was] = string((&entry{Change: s}).text())
	k.past[9].change(s)
	if diff := cmp.Diff(written, entries()); diff != "" {
		t.Errorf("after a change of settings (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(before.Tasks[1], slices.Collect(k.Tasks(9)), plainly, cmpopts.IgnoreFields(api.Job{}, "Priority")); diff != "" {
		t.Errorf("its tasks after a change of settings (-before +now)\n%s", diff)
	}
	for _, j := range all {
		k.drop(j.Number)
	}
	if k.endedSum != 0 || len(k.past) != 0 || len(k.numbers) != 0 || len(k.users) != 0 {
		t.Errorf("forgotten: %d tasks, %d jobs, %d numbers, %d users", k.endedSum, len(k.past), len(k.numbers), len(k.users))
	}
}

// A list is whole and in its order, however many jobs it has to look at for it.
func TestListsInPieces(t *testing.T) {
	k := recall(t, filepath.Join(t.TempDir(), "environments"), history(2*lookedAtOnce+5, 1))
	for _, most := range []int{1, lookedAtOnce - 1, lookedAtOnce, 2*lookedAtOnce + 5, 3 * lookedAtOnce} {
		var all []int64
		for before, more := int64(0), true; more; {
			var some []int64
			some, more = k.selected(&Query{Before: before, Most: most})
			all, before = append(all, some...), some[len(some)-1]
			if most == 1 && len(all) == 3 {
				break
			}
		}
		slices.Reverse(all)
		if want := k.numbers[len(k.numbers)-len(all):]; !slices.Equal(all, want) || most > 1 && len(all) != len(k.numbers) {
			t.Errorf("%d at a time: %d jobs, from %d on", most, len(all), all[0])
		}
	}
	if none, more := k.selected(&Query{Users: []string{"eve"}, Most: 1}); len(none) > 0 || more {
		t.Errorf("of somebody without jobs: %v", none)
	}
}

// A job that waits for many tasks of one that has ended costs no reading of that job, and
// however many tasks end while somebody looks at those that wait for them, they are looked at
// once more.
func TestEndsCostThoseThatWaitLittle(t *testing.T) {
	play(t, func(w *world) {
		w.script = func(_, id string, _ int) plan {
			return plan{takes: time.Second, exit: map[string]int{"ended-1.2": 1}[id]}
		}
		ended := w.submit(spec("ended", array("1-2")))
		w.after(time.Minute)
		p := w.daemon.past[ended.Number]
		for task, want := range map[int]job.Ending{1: job.Well, 2: job.Badly, 3: job.Badly} {
			r := job.Ref{Number: ended.Number, Task: task, One: true}
			if made := testing.AllocsPerRun(10, func() { _, _ = p.ending(r) }); made != 0 {
				t.Errorf("to find out how %v has ended allocates %v times", r, made)
			}
			if got, _ := p.ending(r); got != want {
				t.Errorf("%v has ended %v, want %v", r, got, want)
			}
		}
		bob := func(s *job.Spec) { s.UID, s.User = 1001, "bob" }
		live := w.submit(spec("live", array("1-2"), func(s *job.Spec) { s.Hold = true }))
		w.limits.Running = gpu.Some(0)
		w.submit(spec("ready", bob)) // so that each look at what bob has asks for his limits
		w.submit(spec("waits", bob, func(s *job.Spec) { s.AfterAny = []job.Ref{{Number: live.Number, Task: 1, One: true}} }))
		var looks atomic.Int64
		w.asked = func() { looks.Add(1) }
		w.daemon.writing.Lock()
		for range 100 {
			w.daemon.Happened(run.Event{What: run.Forgotten, Key: lease.Key{Owner: lease.Owner{UID: 1000}, Run: lease.Run{Number: live.Number, Task: 2}}})
		}
		w.daemon.writing.Unlock()
		synctest.Wait()
		if n := looks.Load(); n < 1 || n > 2 {
			t.Errorf("100 ends had those that wait looked at %d times", n)
		}
		w.limits = Limits{}
		_ = w.daemon.Cancel(Act{Ref: job.Ref{Number: live.Number}})
		w.daemon.LimitsChanged()
		w.after(time.Minute)
		w.idle()
	})
}
