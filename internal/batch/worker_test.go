package batch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// The test binary, started again with this variable, is a worker whose records
// say what is to go wrong.
const envTestWorker = "BERTH_TEST_WORKER"

// job is a record of the tests.
type job struct {
	ID   int     `json:"id"`
	Do   string  `json:"do,omitempty"`   // what goes wrong, see faults
	Cost float64 `json:"cost,omitempty"` // not used by the worker
}

type testWorker struct {
	out   *os.File
	marks string // folder of the faults that have happened
	count int    // records done by this process
}

func runTestWorker() {
	w := &testWorker{out: os.NewFile(workerOut, "out"), marks: os.Getenv("BERTH_TEST_MARKS")}
	in := bufio.NewReaderSize(os.NewFile(workerIn, "in"), 1<<20)
	switch os.Getenv(envTestWorker) {
	case "unready":
		block()
	case "early exit":
		fmt.Fprintln(os.Stderr, "ModuleNotFoundError: No module named 'model'")
		os.Exit(1)
	case "quiet exit":
		os.Exit(0)
	case "old":
		w.say(`{"type":"ready","protocol":99}`)
		block()
	case "impatient":
		w.say(`{"type":"result","id":1,"outcomes":[]}`)
		block()
	}
	w.say(`{"type":"ready","protocol":1}`)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		var message struct {
			Type    string
			ID      int64
			Records []json.RawMessage
		}
		if err := json.Unmarshal(line, &message); err != nil {
			os.Exit(9)
		}
		if message.Type == "bye" {
			os.Exit(0)
		}
		w.batch(message.ID, message.Records)
	}
}

func (w *testWorker) say(line string) {
	if _, err := w.out.WriteString(line + "\n"); err != nil {
		os.Exit(0)
	}
}

// block waits for ever; the main goroutine of a program without others may not
// simply do so.
func block() {
	r, _, _ := os.Pipe()
	_, _ = r.Read(make([]byte, 1))
}

// once reports whether a fault happens now for the first time, over all
// processes and all runs of the test.
func (w *testWorker) once(j job) bool {
	f, err := os.OpenFile(filepath.Join(w.marks, fmt.Sprintf("%d-%s", j.ID, j.Do)), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

// batch answers a batch, unless a record of it is a fault.
func (w *testWorker) batch(id int64, records []json.RawMessage) {
	outcomes, errors := []string{}, map[string]string{}
	leave := false
	for i, data := range records {
		var j job
		if json.Unmarshal(data, &j) != nil {
			outcomes = append(outcomes, string(data)) // not one of ours: comes back as it is
			continue
		}
		w.count++
		switch fault := faults[j.Do]; {
		case fault == nil:
		case fault(w, j, id, len(records)):
			return
		}
		if j.Do == "bad" {
			errors[strconv.Itoa(i)] = "a bad record"
		}
		leave = leave || j.Do == "bye" && w.once(j)
		outcomes = append(outcomes, answerTo(j))
	}
	text, _ := json.Marshal(errors)
	w.say(fmt.Sprintf(`{"type":"result","id":%d,"outcomes":[%s],"errors":%s}`, id, strings.Join(outcomes, ","), text))
	if leave {
		w.say(`{"type":"bye"}`)
		block()
	}
}

// answerTo is the outcome of a record that goes well.
func answerTo(j job) string { return fmt.Sprintf(`{"id":%d,"twice":%d}`, j.ID, 2*j.ID) }

// faults are what a record can do to its worker; true: the batch has had its
// answer, if it gets one at all.
var faults = map[string]func(w *testWorker, j job, id int64, n int) bool{
	// Those that happen once. Afterwards the record goes well.
	"die":     func(w *testWorker, j job, _ int64, _ int) bool { return w.once(j) && die() },
	"exit":    func(w *testWorker, j job, _ int64, _ int) bool { return w.once(j) && exit(0) },
	"hang":    func(w *testWorker, j job, _ int64, _ int) bool { return w.once(j) && hang() },
	"garbage": func(w *testWorker, j job, _ int64, _ int) bool { return w.once(j) && w.says("}{ \xff garbage") },
	"no json": func(w *testWorker, j job, id int64, _ int) bool {
		return w.once(j) && w.says(fmt.Sprintf(`{"type":"result","id":%d,"outcomes":[NaN]}`, id))
	},
	"few": func(w *testWorker, j job, id int64, _ int) bool {
		return w.once(j) && w.says(fmt.Sprintf(`{"type":"result","id":%d,"outcomes":[]}`, id))
	},
	"other": func(w *testWorker, j job, id int64, n int) bool {
		return w.once(j) && w.says(fmt.Sprintf(`{"type":"result","id":%d,"outcomes":[%s]}`, id+1000, strings.TrimSuffix(strings.Repeat("1,", n), ",")))
	},
	"torn":     func(w *testWorker, j job, id int64, _ int) bool { return w.once(j) && w.torn(id) },
	"siblings": func(w *testWorker, j job, _ int64, _ int) bool { return w.once(j) && killSiblings() },
	"runner":   func(w *testWorker, j job, _ int64, _ int) bool { return w.once(j) && killRunner() },
	"child":    func(w *testWorker, j job, _ int64, _ int) bool { return w.once(j) && leaveChild() },
	// Those that happen always.
	"poison": func(w *testWorker, _ job, _ int64, _ int) bool { return die() },
	"stuck":  func(w *testWorker, _ job, _ int64, _ int) bool { return hang() },
	"memory": func(w *testWorker, _ job, id int64, n int) bool {
		return n > 1 && w.says(fmt.Sprintf(`{"type":"oom","id":%d,"text":"out of memory"}`, id))
	},
	"sixteen": func(w *testWorker, _ job, id int64, n int) bool {
		return n > 16 && w.says(fmt.Sprintf(`{"type":"oom","id":%d,"text":"out of memory"}`, id))
	},
	"giant": func(w *testWorker, _ job, id int64, _ int) bool {
		return w.says(fmt.Sprintf(`{"type":"oom","id":%d,"text":"out of memory"}`, id))
	},
	"refuse": func(w *testWorker, _ job, id int64, _ int) bool {
		return w.says(fmt.Sprintf(`{"type":"error","id":%d,"text":"ValueError: refused"}`, id))
	},
	"huge": func(w *testWorker, _ job, id int64, n int) bool {
		return n > 1 && w.says(fmt.Sprintf(`{"type":"result","id":%d,"outcomes":["%s"]}`, id, strings.Repeat("x", 1<<20)))
	},
	"prints": func(w *testWorker, _ job, _ int64, _ int) bool {
		fmt.Println(`{"type":"result","id":1,"outcomes":[]}`)
		return false
	},
	"reports": func(w *testWorker, _ job, _ int64, _ int) bool {
		w.say(`{"type":"progress","text":"half way"}`)
		return false
	},
}

func (w *testWorker) says(line string) bool {
	w.say(line)
	return true
}

func (w *testWorker) torn(id int64) bool {
	_, _ = fmt.Fprintf(w.out, `{"type":"result","id":%d,"outc`, id)
	return die()
}

func die() bool {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	block()
	return true
}

func exit(code int) bool {
	os.Exit(code)
	return true
}

func hang() bool {
	block()
	return true
}

func killRunner() bool {
	_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
	block() // until the signal that comes with the death of the runner
	return true
}

// killSiblings kills every worker of the same run, itself last.
func killSiblings() bool {
	mine := "BERTH_TEST_MARKS=" + os.Getenv("BERTH_TEST_MARKS") + "\x00"
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getppid()))
	for _, path := range tasks {
		text, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(text)) {
			env, _ := os.ReadFile("/proc/" + field + "/environ")
			if pid, err := strconv.Atoi(field); err == nil && pid != os.Getpid() && strings.Contains(string(env), mine) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	return die()
}

// leaveChild dies and leaves a process behind that holds its pipes.
func leaveChild() bool {
	_, err := os.StartProcess("/bin/cat", []string{"cat"}, &os.ProcAttr{
		Files: []*os.File{os.NewFile(workerIn, ""), os.Stdout, os.Stderr, nil, os.NewFile(workerOut, "")},
	})
	if err != nil {
		os.Exit(8)
	}
	return die()
}
