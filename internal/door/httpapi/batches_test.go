package httpapi

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/berth-gpu/berth/api"
)

func TestBatches(t *testing.T) {
	d := open(t, "1")
	if all := decode[api.Batches](t, d.ask("GET", "/api/batches", "")); all.Batches == nil || len(all.Batches) != 0 {
		t.Errorf("before any: %+v", all)
	}
	text, err := json.Marshal(api.Batch{ID: "b", Output: "out.jsonl", Stage: "running", User: "root", PID: 1, Done: 3, GPUs: []api.BatchGPU{{GPU: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	if w := d.ask("PUT", "/api/batches/b", string(text)); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	all := decode[api.Batches](t, d.ask("GET", "/api/batches", ""))
	if len(all.Batches) != 1 || all.Batches[0].Done != 3 || all.Batches[0].Reported.IsZero() {
		t.Errorf("after a report: %+v", all)
	}
	if b := all.Batches[0]; b.User == "root" || b.PID != 0 {
		t.Errorf("the runner said who it is, and was believed: %+v", b)
	}
	for body, code := range map[string]int{
		`{}`:               http.StatusUnprocessableEntity,
		string(text) + `,`: http.StatusBadRequest,
	} {
		if w := d.ask("PUT", "/api/batches/b", body); w.Code != code {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if w := d.ask("PUT", "/api/batches/c", string(text)); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("under another id: %d %s", w.Code, w.Body)
	}
}
