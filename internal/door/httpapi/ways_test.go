package httpapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/desk"
)

// ways are the ways to a lease over one connection. Each asks for so much memory
// and waits for it, and returns the code of a refusal.
var ways = map[string]func(t *testing.T, conn net.Conn, memory int, wait string) (code string){
	"REST": func(t *testing.T, conn net.Conn, memory int, wait string) string {
		return post(t, conn, "/api/leases", fmt.Sprintf(`{"name":"job","binding":"process","memory_mb":%d,"enforce":"auto","timeout_seconds":%s}`, memory, wait))
	},
	"stream": func(t *testing.T, conn net.Conn, memory int, wait string) string {
		l := upgrade(t, conn)
		l.send(wire.Acquire, 1, fmt.Sprintf(`{"name":"job","binding":"process","memory_mb":%d,"enforce":"auto","timeout_seconds":%s}`, memory, wait))
		f, err := l.in.Next()
		if err != nil || f.Kind == wire.Done {
			return ""
		}
		return decodeText[api.Problem](t, string(f.Body)).Code
	},
	"plan": func(t *testing.T, conn net.Conn, memory int, wait string) string {
		return post(t, conn, "/api/plans/run", fmt.Sprintf(
			`{"plan":{"pipelines":[{"name":"job","memory_mb":%d,"slots":1,"runs":[{"name":"job"}]}]},"enforce":"auto","timeout_seconds":%s}`, memory, wait))
	},
}

// post makes one request on a connection; empty: it is granted, or the
// connection ends first.
func post(t *testing.T, conn net.Conn, path, body string) (code string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}}
	defer client.CloseIdleConnections()
	answer, err := client.Post("http://berth"+path, "application/json", strings.NewReader(body))
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text := new(strings.Builder)
	if err := answer.Write(text); err != nil || answer.StatusCode < 300 {
		return ""
	}
	_, problem, _ := strings.Cut(text.String(), "\r\n\r\n")
	return decodeText[api.Problem](t, problem).Code
}

// connect connects to a door.
func connect(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// Whichever way a process comes, it gets the same lease, and when it goes while
// it waits it leaves nothing behind.
func TestEveryWayToALease(t *testing.T) {
	for name, ask := range ways {
		t.Run(name, func(t *testing.T) {
			d := open(t, "1xh200")
			path := d.socket(t)
			me := self(t)
			conn := connect(t, path)
			if code := ask(t, conn, 1000, "0"); code != "" {
				t.Fatalf("refused: %s", code)
			}
			_ = conn.Close()
			got := decode[api.Leases](t, d.askAs(me, "GET", "/api/leases", "")).Leases
			want := api.Lease{
				State: "active", Binding: "process", EnforcedBy: "framework", Parts: []api.LeasePart{{GPU: d.Monitor.Readings()[0].Device.UUID, Memory: 1000, Slots: 1}},
				Holder: desk.HolderOf(me.Holder),
			}
			want.Holder.Name = "job"
			if len(got) != 1 {
				t.Fatalf("the leases are %+v", got)
			}
			if diff := cmp.Diff(want, got[0], cmpopts.IgnoreFields(api.Lease{}, "ID", "Fence", "Granted"), cmp.AllowUnexported(gpu.Opt[int]{}, gpu.Opt[gpu.MiB]{}, gpu.Opt[gpu.Joules]{})); diff != "" {
				t.Errorf("it is not what all get (-want +got):\n%s", diff)
			}

			conn = connect(t, path)
			if code := ask(t, conn, 1<<20, "0"); code != "insufficient_memory" {
				t.Errorf("too much is refused with %q", code)
			}
			_ = conn.Close()

			conn = connect(t, path)
			go func() {
				for waiting := 0; waiting == 0; _, waiting = d.Ledger.Len() {
					runtime.Gosched()
				}
				_ = conn.Close()
			}()
			if code := ask(t, conn, int(d.Ledger.Sum(want.Parts[0].GPU).Most), "600"); code != "" { // nobody hears it
				t.Errorf("what is not there now is refused with %q", code)
			}
			_ = conn.Close()
			for waiting := 1; waiting > 0; _, waiting = d.Ledger.Len() {
				runtime.Gosched()
			}
			if w := d.askAs(me, "DELETE", "/api/leases/"+got[0].ID, ""); w.Code != http.StatusOK {
				t.Fatal(w.Body)
			}
			if leases, waiting := d.Ledger.Len(); leases+waiting != 0 {
				t.Errorf("%d leases and %d requests are left behind", leases, waiting)
			}
		})
	}
}

// Every kind of refusal has a status.
func TestEveryKindHasAStatus(t *testing.T) {
	for kind := desk.Failed; kind <= desk.Withdrawn; kind++ {
		if http.StatusText(statuses[kind]) == "" {
			t.Errorf("kind %d has the status %d", kind, statuses[kind])
		}
	}
}
