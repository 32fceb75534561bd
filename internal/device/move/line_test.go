package move_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/device/move"
)

func TestReadAnswer(t *testing.T) {
	o := move.Order{Number: 3, Step: move.Lock, Processes: []move.Process{{PID: 7, Start: 1}, {PID: 8, Start: 2}}}
	good := `{"number":3,"outcomes":[{"pid":7,"start":1,"state":"locked","took_seconds":0.5},{"pid":8,"start":2,"state":"running","error":"no\u001b[31m","code":801}]}`
	got, err := move.ReadAnswer([]byte(good), o)
	if err != nil || got[0].Took != 0.5 || got[1].Error != "no\uFFFD[31m" || got[1].Code != 801 {
		t.Errorf("%+v, %v", got, err)
	}
	for name, change := range map[string][2]string{
		"another number":    {`"number":3`, `"number":2`},
		"another process":   {`"pid":7`, `"pid":9`},
		"another start":     {`"start":2`, `"start":3`},
		"another state":     {`"locked"`, `"splendid"`},
		"no state":          {`,"state":"locked"`, ``},
		"a time":            {`0.5`, `-0.5`},
		"a process missing": {`{"pid":7,"start":1,"state":"locked","took_seconds":0.5},`, ``},
		"no JSON":           {`{"number"`, `{number`},
		"too long":          {`"no`, `"` + strings.Repeat("n", move.MostLine)},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if got, err := move.ReadAnswer([]byte(text), o); text == good || err == nil || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Every order that ReadOrder takes is about real processes and known steps, and is
// the same when it is written and read again. No answer is believed that is about
// other processes.
func FuzzReadOrder(f *testing.F) {
	for _, seed := range []string{
		`{"number":1,"step":"lock","processes":[{"pid":77,"start":5}]}`,
		`{"step":"state","processes":[{"pid":77,"start":5},{"pid":78,"start":18446744073709551615}]}`,
		`{"step":"unlock","processes":[{"pid":4194304,"start":0}],"fault":{"step":"unlock","when":"before","what":"hang"}}`,
		`{"step":"lock","processes":[{"pid":1,"start":5}]}`, `{"step":"lock","processes":[{"pid":-1}]}`, `{"step":"dance"}`,
		`{"number":1,"outcomes":[{"pid":77,"start":5,"state":"locked"}]}`, `null`, `[]`, `{}`, ``,
	} {
		f.Add([]byte(seed))
	}
	asked := move.Order{Number: 1, Step: move.Lock, Processes: []move.Process{{PID: 77, Start: 5}}}
	f.Fuzz(func(t *testing.T, line []byte) {
		if outcomes, err := move.ReadAnswer(line, asked); err == nil && (len(outcomes) != 1 || outcomes[0].Process != asked.Processes[0] || outcomes[0].Took < 0) {
			t.Errorf("an answer to another order: %+v", outcomes)
		}
		o, err := move.ReadOrder(line)
		if err != nil {
			return
		}
		for _, p := range o.Processes {
			if p.PID < 2 {
				t.Errorf("it takes process %d", p.PID)
			}
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		again, err := move.ReadOrder(text)
		if err != nil || len(again.Processes) != len(o.Processes) || again.Step != o.Step || again.Number != o.Number || (again.Fault == nil) != (o.Fault == nil) {
			t.Errorf("%+v became %+v, %v", o, again, err)
		}
	})
}
