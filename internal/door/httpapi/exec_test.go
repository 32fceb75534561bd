package httpapi

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// self is this process, at the other end of a socket.
func self(t testing.TB) doorkeeper.Identity {
	t.Helper()
	id, err := process.Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	boot, err := process.Proc().Boot()
	if err != nil {
		t.Fatal(err)
	}
	return holding(lease.Holder{
		UID: os.Geteuid(), User: loginName(os.Geteuid()), PID: id.PID, Start: id.Start, Boot: boot, Name: "test",
	}, access.User)
}

// What berth 0.1.0 asks with POST /api/exec before it asks for a lease in the ordinary way is
// refused with a conflict, which it takes for the word that nothing changed.
func TestExecOfAnOlderBerth(t *testing.T) {
	d := open(t, "1xh200")
	w := d.askAs(self(t), "POST", "/api/exec", "f--memory\x00f4GiB\x00cpython\x00ctrain.py\x00t2.4.1\x00")
	expect(t, "a launch", w, http.StatusConflict, "not_plain")
	if !strings.Contains(w.Body.String(), "POST /api/leases") {
		t.Errorf("the refusal does not say what to do: %s", w.Body)
	}
	if held := decode[api.Leases](t, d.ask("GET", "/api/leases", "")); len(held.Leases)+len(held.Waiting) > 0 {
		t.Errorf("left behind: %+v", held)
	}
}

// The daemon numbers the ids of programs, and skips an id that the caller uses.
func TestIDsAreNumbered(t *testing.T) {
	d := open(t, "1xh200")
	me := self(t)
	made := func(name string) string {
		return decode[api.MadeID](t, d.askAs(me, "POST", "/api/leases/id", fmt.Sprintf(`{"name":%q}`, name))).ID
	}
	first, next := made("fit"), made("fit")
	var number int
	if _, err := fmt.Sscanf(next, "fit-%d", &number); err != nil || first != fmt.Sprintf("fit-%d", number-1) {
		t.Fatalf("the ids are %q and %q", first, next)
	}
	expect(t, "an id of one's own", d.askAs(me, "POST", "/api/leases", fmt.Sprintf(`{"id":"train-%d","slots":0,"memory_mb":10,"binding":"named"}`, number+1)), 201, "")
	if got, want := made("train")+" "+made("exec"), fmt.Sprintf("train-%d exec-%d", number+2, number+3); got != want {
		t.Errorf("the ids are %s, want %s", got, want)
	}
	expect(t, "no name", d.askAs(me, "POST", "/api/leases/id", `{"name":""}`), 422, "invalid_request")
	expect(t, "a name with a bell", d.askAs(me, "POST", "/api/leases/id", `{"name":"a\u0007"}`), 422, "invalid_request")
	expect(t, "a viewer", d.askAs(doorkeeper.Identity{Actor: viewer()}, "POST", "/api/leases/id", `{"name":"x"}`), 403, "")
}

func TestEnforce(t *testing.T) {
	d := open(t, "1xh200")
	for body, want := range map[string]string{
		`{"memory_mb":1,"binding":"process"}`:                       launch.Watchdog,
		`{"memory_mb":1}`:                                           launch.None, // nobody knows who will use it
		`{"binding":"process"}`:                                     launch.None,
		`{"memory_mb":1,"binding":"process","enforce":"auto"}`:      launch.Framework,
		`{"memory_mb":1,"binding":"process","enforce":"framework"}`: launch.Framework,
		`{"memory_mb":1,"binding":"process","enforce":"watchdog"}`:  launch.Watchdog,
		`{"memory_mb":1,"binding":"process","enforce":"none"}`:      launch.None,
		`{"binding":"process","enforce":"auto"}`:                    launch.None,
	} {
		w := d.askAs(self(t), "POST", "/api/leases", body)
		l := decode[api.Lease](t, w)
		if w.Code != http.StatusCreated || l.EnforcedBy != want {
			t.Errorf("%s is enforced by %s, want %s", body, l.EnforcedBy, want)
		}
		if asked := strings.Contains(body, "enforce"); asked != (l.Launch != nil) {
			t.Errorf("%s: a launcher is told %+v", body, l.Launch)
		}
		if w := d.askAs(self(t), "DELETE", "/api/leases/"+l.ID, ""); w.Code != http.StatusOK {
			t.Fatal(w.Body)
		}
	}
	d.desk.Config = func() *config.Config { return &config.Config{GPU: config.GPU{Context: 500, MPS: "on"}} }
	d.remake()
	for body, why := range map[string]string{
		`{"memory_mb":1,"binding":"process","enforce":"mps"}`:           "whole NVIDIA devices",
		`{"memory_mb":1,"binding":"process","enforce":"mps","gpu":"0"}`: "whole NVIDIA devices",
		`{"memory_mb":1,"binding":"process","enforce":"mps","gpus":2}`:  "one device",
	} {
		if w := d.askAs(self(t), "POST", "/api/leases", body); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), why) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if l := decode[api.Lease](t, d.askAs(self(t), "POST", "/api/leases", `{"memory_mb":1,"binding":"process","enforce":"auto"}`)); l.EnforcedBy != launch.Framework || l.Launch.Context != 500 {
		t.Errorf("without MPS on the devices: %+v", l)
	}
}

func TestMeasurements(t *testing.T) {
	d := open(t, "1xh200")
	me := self(t)
	if w := d.askAs(me, "POST", "/api/measurements", `{"name":"embed","step":"encode","memory_mb":3000,"seconds":2.5}`); w.Code != http.StatusNoContent || w.Body.Len() > 0 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	d.desk.Peaks.Add(peaks.Key{User: me.User, Name: "train.py"}, peaks.Run{Peak: 2000, Asked: 8192, Seconds: 60}, time.Now())
	all := decode[api.Measurements](t, d.ask("GET", "/api/measurements", "")).Measurements
	if len(all) != 2 || all[0].Name != "embed" || all[0].Step != "encode" || all[0].Peak != 3000 || all[0].User != me.User || all[1].Next != 2304 || all[1].Asked != 8192 {
		t.Errorf("measurements are %+v", all)
	}
	if one := decode[api.Measurements](t, d.ask("GET", "/api/measurements?name=train.py", "")).Measurements; len(one) != 1 {
		t.Errorf("those of one name are %+v", one)
	}
	for _, bad := range []string{`{"name":"","memory_mb":1,"seconds":1}`, `{"name":"x","memory_mb":-1,"seconds":1}`, `{"name":"x","memory_mb":1,"seconds":-1}`, `[]`} {
		if w := d.askAs(me, "POST", "/api/measurements", bad); w.Code < 400 || w.Code >= 500 {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
	}
	// The next run of that name gets as much, if it asks for that and says nothing else.
	for body, want := range map[string]int{
		`{"name":"train.py","learned_memory":true}`:                 2304,
		`{"name":"train.py","learned_memory":true,"memory_mb":100}`: 100,
		`{"name":"train.py"}`:                                       0,
		`{"name":"unknown","learned_memory":true}`:                  0,
	} {
		e := decode[api.Explanation](t, d.askAs(me, "POST", "/api/leases/explain", body))
		if e.Grant == nil || int(e.Grant.Parts[0].Memory) != want || (want == 2304) != strings.Contains(e.Grant.Note, "earlier runs used up to 2 GiB") {
			t.Errorf("%s would get %+v", body, e.Grant)
		}
	}
}

// What was learned is never more than a device can ever give, what its driver
// takes included; a plan knows that too.
func TestLearnedMemoryFits(t *testing.T) {
	d := open(t, "1xh200")
	me := self(t)
	most := d.Ledger.Sum(d.Monitor.Readings()[0].Device.UUID).Available() // nobody holds anything
	if w := d.askAs(me, "POST", "/api/measurements", `{"name":"full","memory_mb":142000,"seconds":10}`); w.Code != http.StatusNoContent {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	e := decode[api.Explanation](t, d.askAs(me, "POST", "/api/leases/explain", `{"name":"full","learned_memory":true}`))
	if e.Grant == nil || e.Grant.Parts[0].Memory != most {
		t.Errorf("it would get %+v, want %d: %s", e.Grant, int64(most), e.Text)
	}
	if all := decode[api.Measurements](t, d.ask("GET", "/api/measurements", "")).Measurements; len(all) != 1 || all[0].Next != most {
		t.Errorf("the next run is said to get %+v", all)
	}
	w := d.askAs(me, "POST", "/api/plans", fmt.Sprintf(`{"pipelines":[{"name":"p","steps":[{"name":"s","input":"cupy","output":"cupy","memory_mb":%d}]}]}`, most+1))
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), most.String()) {
		t.Errorf("a plan beyond it: %d %s", w.Code, w.Body)
	}
}

// Only a run that has leased what was offered makes it the last offer.
func TestOffersThatAreTaken(t *testing.T) {
	d := open(t, "1xh200")
	me := self(t)
	key := peaks.Key{User: me.User, Name: "train.py"}
	d.desk.Peaks.Add(key, peaks.Run{Peak: 2000, Asked: 8192, Seconds: 60}, time.Now())
	for _, test := range []struct {
		path, body string
		want       gpu.MiB
	}{
		{"/api/leases/explain", `{"name":"train.py","learned_memory":true}`, 0},
		{"/api/leases", `{"name":"train.py","learned_memory":true,"memory_mb":100,"slots":0}`, 0},
		{"/api/leases", `{"name":"train.py","learned_memory":true,"id":"a"}`, 2304},
	} {
		if w := d.askAs(me, "POST", test.path, test.body); w.Code >= 300 {
			t.Fatalf("%s: %d %s", test.path, w.Code, w.Body)
		}
		if e, _ := d.desk.Peaks.Find(key); e.Offered != test.want {
			t.Errorf("after %s %q the last offer is %s, want %s", test.path, test.body, e.Offered, test.want)
		}
	}
}

func TestNoOrphans(t *testing.T) {
	d := open(t, "1xh200")
	w := d.ask("GET", "/api/orphans", "")
	if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != `{"orphans":[],"foreign":[]}` {
		t.Errorf("%d %s", w.Code, got)
	}
}
