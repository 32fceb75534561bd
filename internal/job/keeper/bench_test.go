package keeper

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job"
)

// history returns the journal of jobs that have ended, with so many tasks each. One in four
// was cancelled before it began.
func history(jobs, tasksEach int) (all []journal.Entry) {
	add := func(e entry) { all = append(all, journal.Entry{Seq: uint64(len(all) + 1), Data: e.text()}) }
	at := time.Date(2026, 1, 31, 12, 0, 0, 123456789, time.UTC)
	for n := range jobs {
		at = at.Add(time.Second)
		s := &job.Spec{
			Number: int64(n + 1), Name: "train", Called: "train", UID: 1000, User: "ada", Submitted: at, Umask: 18,
			Command: []string{"python3", "train.py", "--seed", fmt.Sprint(n)}, Directory: "/home/ada/project", Output: "logs/%j.log",
			Lease: api.LeaseRequest{Memory: 20 << 10, TimeLimit: gpu.Some(3600.0), Name: "train"},
		}
		if tasksEach > 1 {
			s.Array = job.Array{{First: 1, Last: tasksEach, Step: 1}}
		}
		add(entry{Submit: s})
		if n%4 == 0 {
			add(entry{Tasks: &tasks{Number: s.Number, Last: tasksEach - 1, Task: job.Task{State: job.Cancelled, Code: job.ByCancel, Cause: "cancelled by its owner", Ended: at}}})
			continue
		}
		for i := range tasksEach {
			t := job.Task{State: job.Waiting, Since: at}
			add(entry{Tasks: &tasks{Number: s.Number, First: i, Last: i, Task: t}})
			t.State, t.Try, t.Fence, t.Granted, t.Devices, t.Memory = job.Starting, 1, uint64(n), at, []string{"GPU-5d1ad0b4-16e9-4c8b-9a3f-0c6e4a1b7d20"}, 20<<10
			add(entry{Tasks: &tasks{Number: s.Number, First: i, Last: i, Task: t}})
			t.State, t.Started, t.PID = job.Running, at, 12345
			add(entry{Tasks: &tasks{Number: s.Number, First: i, Last: i, Task: t}})
			t.State, t.Ended, t.Exit, t.Output = job.Done, at.Add(time.Minute), gpu.Some(0), "/home/ada/project/logs/"+s.TaskID(i)+".log"
			t.Peak, t.Load, t.Energy, t.PeakHost = gpu.Some(gpu.MiB(18432)), gpu.Some(0.87), gpu.Some(12345.6), gpu.Some(gpu.MiB(2048))
			add(entry{Tasks: &tasks{Number: s.Number, First: i, Last: i, Task: t}})
		}
	}
	return all
}

// recall returns a keeper that has read a journal.
func recall(tb testing.TB, folder string, entries []journal.Entry) *Keeper {
	k := newKeeper(Options{Folder: folder, Limits: func(int, string) Limits { return Limits{} }})
	for _, e := range entries {
		if err := k.replay(e); err != nil {
			tb.Fatal(err)
		}
	}
	k.settle()
	return k
}

// BenchmarkEnded reports the memory that a task takes once it has ended, and how long a
// start takes to read it.
func BenchmarkEnded(b *testing.B) {
	for _, tasksEach := range []int{1, 1000} {
		b.Run(fmt.Sprintf("tasks=%d", tasksEach), func(b *testing.B) {
			const sum = 20_000
			entries, folder := history(sum/tasksEach, tasksEach), filepath.Join(b.TempDir(), "environments")
			var before, after runtime.MemStats
			var k *Keeper
			for b.Loop() {
				k = nil
				b.StopTimer()
				live(&before)
				b.StartTimer()
				k = recall(b, folder, entries)
			}
			live(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/sum, "B/task")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/sum, "ns/task")
			runtime.KeepAlive(k)
			runtime.KeepAlive(entries)
		})
	}
}

// live reads how much memory is in use.
func live(m *runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(m)
}

// BenchmarkList reports how long it takes to list jobs that have ended.
func BenchmarkList(b *testing.B) {
	k := recall(b, filepath.Join(b.TempDir(), "environments"), history(1000, 1))
	b.ReportAllocs()
	for b.Loop() {
		if n := len(collected(k, Query{Most: 100})); n != 100 {
			b.Fatal(n)
		}
	}
}
