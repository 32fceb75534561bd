package leasing

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/console"
)

// A job that waits for something other than room has no request, and is explained all the
// same.
func TestExplainUnasked(t *testing.T) {
	var out bytes.Buffer
	o := explainOptions{Console: &console.Console{Env: console.Env{
		Out: &out, Getenv: func(string) string { return "" }, Now: time.Now, Terminal: func() (int, bool) { return 80, false },
	}}}
	if err := o.unasked(api.Job{ID: "job-19", State: "waiting", Cause: "ada may run 1 job at a time"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, "job-19 is waiting: ada may run 1 job at a time.") || !strings.Contains(got, "berth job job-19") {
		t.Errorf("%q", got)
	}
}

func TestAmount(t *testing.T) {
	for _, text := range []string{"4", "63"} {
		if _, err := amount(text); err == nil || !strings.Contains(err.Error(), text+"GiB") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]int{"4GiB": 4096, "4MiB": 4, "64": 64, "4096": 4096} {
		if got, err := amount(text); err != nil || int(got) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}
