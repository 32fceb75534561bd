package batch

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/batch/chunk"
	"github.com/berth-gpu/berth/internal/batch/record"
)

func TestAppendBatch(t *testing.T) {
	records := []record.Record{{Data: []byte(`{"a": 1.50}`)}, {Data: []byte(`"x"`)}}
	got := string(appendBatch(nil, 7, records))
	if want := `{"type":"batch","id":7,"records":[{"a": 1.50},"x"]}` + "\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestParseMessage(t *testing.T) {
	for _, test := range []struct {
		line string
		want string // what is wrong; empty: nothing
	}{
		{`{"type":"ready","protocol":1}`, ""},
		{` {"protocol":1, "type" : "ready", "name":"anything else is passed over"}` + "\r", ""},
		{`{"type":"result","id":3,"outcomes":[1,{"a":[]}],"errors":{"1":"x"}}`, ""},
		{`{"type":"result","id":3,"outcomes":[],"errors":null}`, ""},
		{`{"type":"oom","id":3,"text":"no memory"}`, ""},
		{`{"type":"error","id":3,"text":"ValueError"}`, ""},
		{`{"type":"progress"}`, ""},
		{`{"type":"bye"}`, ""},
		{``, "not JSON"},
		{`hello`, "not JSON"},
		{`{"type":"result","id":3,"outcomes":[NaN]}`, "not JSON"},
		{"{\"type\":\"ready\xff\"}", "not UTF-8"},
		{`[1]`, "not an object"},
		{`{}`, `type ""`},
		{`{"type":"batch"}`, `type "batch"`},
		{`{"type":5}`, `type "5"`},
		{`{"type":"result","id":"3"}`, `"id" cannot be "3"`},
		{`{"type":"result","id":1.5}`, `"id" cannot be 1.5`},
		{`{"type":"result","id":3,"errors":["x"]}`, `"errors" cannot be`},
		{`{"type":"result","id":3,"errors":{"0":5}}`, `"errors" cannot be`},
		{`{"type":"ready","protocol":"1"}`, `"protocol" cannot be`},
	} {
		_, err := parseMessage([]byte(test.line))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.line, err, test.want)
		}
	}
}

// said is the process of a worker that has said something.
type said struct {
	Process
	text io.Reader
}

func (s said) Read(p []byte) (int, error) { return s.text.Read(p) }

// A clock that is set does not make progress older or newer, and neither does a machine that
// slept.
func TestProgressFollowsNoDate(t *testing.T) {
	p := &process{Process: said{text: strings.NewReader(`{"type":"progress"}` + "\n")}, messages: make(chan answer, 1)}
	p.listen(100)
	if at, _ := p.heard.Load().(time.Time); !strings.Contains(at.String(), "m=") {
		t.Errorf("progress was reported at %v, which is counted on a clock that may be set", at)
	}
}

func TestSplitResult(t *testing.T) {
	for _, test := range []struct {
		line string
		n    int
		want string
	}{
		{`{"type":"result","id":1,"outcomes":[1,null,{"a":2}],"errors":{"1":"bad"}}`, 3, ""},
		{`{"type":"result","id":1,"outcomes":[]}`, 0, ""},
		{`{"type":"result","id":1}`, 2, "0 outcomes for 2 records"},
		{`{"type":"result","id":1,"outcomes":{"a":1}}`, 1, "0 outcomes"},
		{`{"type":"result","id":1,"outcomes":[1,2]}`, 1, "2 outcomes for 1 record"},
		{`{"type":"result","id":1,"outcomes":[1],"errors":{"1":"x"}}`, 1, "an error for record"},
		{`{"type":"result","id":1,"outcomes":[1],"errors":{"-1":"x"}}`, 1, "an error for record"},
		{`{"type":"result","id":1,"outcomes":[1],"errors":{"a":"x"}}`, 1, "an error for record"},
	} {
		f, err := parseMessage([]byte(test.line))
		if err != nil {
			t.Fatal(err)
		}
		outcomes, faults, err := f.split(test.n)
		if test.want != "" {
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", test.line, err, test.want)
			}
			continue
		}
		if err != nil || len(outcomes) != test.n || len(faults) != len(f.errors) {
			t.Errorf("%s: %q %v %v", test.line, outcomes, faults, err)
		}
	}
}

func TestReadLine(t *testing.T) {
	const text = "one\n\nfour\nseventeen bytes!!\nlast"
	r := bufio.NewReaderSize(strings.NewReader(text), 16) // lines are longer than the buffer
	var got []string
	for {
		line, err := readLine(r, 3, 10)
		if errors.Is(err, errTooLong) {
			got = append(got, "(too long)")
			continue
		}
		if err != nil {
			got = append(got, err.Error())
			break
		}
		got = append(got, string(line))
	}
	if diff := cmp.Diff([]string{"one", "", "four", "(too long)", "unexpected EOF"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := readLine(bufio.NewReader(strings.NewReader("")), 0, 10); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// Whatever a worker says, it is a message or nonsense.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"type":"result","id":3,"outcomes":[1,{"a":[]}],"errors":{"1":"x"}}`), 2)
	f.Add([]byte(`{"type":"ready","protocol":1}`), 0)
	f.Add([]byte(`{"type":"oom","id":-9,"text":"\ud800"}`), 1)
	f.Fuzz(func(t *testing.T, line []byte, n int) {
		message, err := parseMessage(line)
		if err != nil {
			return
		}
		outcomes, faults, err := message.split(max(n, 0) % 100)
		if err != nil {
			return
		}
		for _, o := range outcomes {
			if !json.Valid(o) {
				t.Fatalf("outcome %q of %q", o, line)
			}
		}
		for i := range faults {
			if i < 0 || i >= len(outcomes) {
				t.Fatalf("an error for %d of %d", i, len(outcomes))
			}
		}
	})
}

// A worker that reads ahead has its next batch early, however long batches take. One on
// another machine has as many as it does while a message goes there and back, but no more
// bytes than allowed.
func TestDepth(t *testing.T) {
	r := &Run{opt: Options{FlightBytes: 1000}, stock: newStock(Options{Batch: 8})}
	r.staff.workers = 1
	for i := range 100 {
		r.stock.put(record.Record{Index: int64(i)})
	}
	for _, c := range []struct {
		seconds float64
		ahead   bool
		latency time.Duration // -1: on this machine
		flight  []int         // bytes of each batch
		want    int
	}{
		{0.01, false, -1, nil, 2}, {10, false, -1, nil, 1}, {10, true, -1, nil, 2},
		{10, false, 0, nil, 2}, {10, false, time.Second, nil, 3}, {0.1, false, 450 * time.Millisecond, nil, 7}, {0.001, false, time.Second, nil, mostDepth},
		{0.001, false, time.Second, []int{400}, mostDepth}, {0.001, false, time.Second, []int{400, 400}, 2}, {0.001, false, time.Second, []int{5000}, 1},
	} {
		w := &worker{run: r, grant: &Grant{}, card: &card{quick: c.seconds, batch: 8, largest: 8, speed: 1}, batches: 3, ahead: c.ahead}
		if c.latency >= 0 {
			w.grant.Latency = func() time.Duration { return c.latency }
		}
		for _, bytes := range c.flight {
			w.flight = append(w.flight, &group{bytes: bytes})
		}
		if got := w.depth(); got != c.want {
			t.Errorf("%+v: %d batches", c, got)
		}
	}
	m, err := parseMessage([]byte(`{"type":"ready","protocol":1,"ahead":true}`))
	if err != nil || !m.ahead {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := parseMessage([]byte(`{"type":"ready","protocol":1,"ahead":"soon"}`)); err == nil {
		t.Error(`"ahead":"soon" is taken`)
	}
}

// ended is a process that has ended.
type ended struct{ Process }

func (ended) Gone() <-chan struct{} {
	gone := make(chan struct{})
	close(gone)
	return gone
}
func (ended) ExitStatus() (string, bool) { return "signal: segmentation fault", true }
func (ended) LastOutput() string         { return "" }

// A worker dies with batches of four, four and four records. If it reads ahead, it may have
// been at work on the second one while it wrote what came of the first.
func TestWhichBatchMayBeToBlame(t *testing.T) {
	for _, c := range []struct {
		ahead bool
		cause chunk.Cause
		want  int // records that are tried in smaller batches
	}{{false, chunk.Died, 4}, {true, chunk.Died, 8}, {true, chunk.Nonsense, 4}} {
		r := &Run{stock: newStock(Options{Batch: 8})}
		r.changed.L = &r.mu
		w := &worker{run: r, grant: &Grant{}, card: &card{}, proc: &process{Process: ended{}}, ahead: c.ahead}
		for i := range 3 {
			w.flight = append(w.flight, &group{records: make([]record.Record, 4), id: int64(i)})
		}
		_ = w.conclude(&failure{c.cause, ""})
		if r.stock.pending != c.want || r.stock.pool.Len() != 12-c.want {
			t.Errorf("%+v: %d records are suspects, and %d are not", c, r.stock.pending, r.stock.pool.Len())
		}
	}
}
