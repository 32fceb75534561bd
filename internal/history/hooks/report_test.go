package hooks

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

func TestTestOfAHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := http.StatusOK
		r := &receiver{answer: func(int, *http.Request) (int, http.Header, error) { return status, nil, nil }}
		b := run(t, 10, r, Hook{Name: "chat", URL: "http://x/hush", Codes: []gpu.EventCode{gpu.EventCritical}, Severity: gpu.Serious}, Hook{Name: "mail", Command: []string{"false"}})
		if _, err := b.hooks.Test(t.Context(), "nobody", gpu.By{}); !errors.Is(err, ErrNoHook) {
			t.Errorf("a hook that does not exist: %v", err)
		}
		got, err := b.hooks.Test(t.Context(), "chat", gpu.By{User: "eve"})
		if err != nil || got.Status != Delivered || got.Err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		var e gpu.Event
		if err := json.Unmarshal([]byte(r.bodies()[0]), &e); err != nil || e.Code != gpu.EventHook || e.ID == 0 || e.Data["test"] != true || e.By.User != "eve" {
			t.Errorf("it got %+v, %v", e, err)
		}
		status = http.StatusServiceUnavailable
		got, err = b.hooks.Test(t.Context(), "chat", gpu.By{})
		if err != nil || got.Status != Failed || got.Err == nil || strings.Contains(got.Err.Error(), "hush") {
			t.Errorf("%+v, %v", got, err)
		}
		time.Sleep(time.Hour)
		if n := len(r.bodies()); n != 2 {
			t.Errorf("a test was tried %d times", n-1)
		}
		if told := b.texts(); len(told) != 0 {
			t.Errorf("a test that failed is told: %q", told)
		}
		if got, err = b.hooks.Test(t.Context(), "mail", gpu.By{}); err != nil || got.Status != Failed || !strings.Contains(got.Err.Error(), "exit status 1") {
			t.Errorf("%+v, %v", got, err)
		}
		if len(b.counts) != 0 {
			t.Errorf("tests are counted: %v", b.counts)
		}
	})
}

func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		r := &receiver{answer: func(int, *http.Request) (int, http.Header, error) {
			if well.Load() {
				return http.StatusOK, nil, nil
			}
			return http.StatusServiceUnavailable, nil, nil
		}}
		b := run(t, 10, r, Hook{Name: "chat", URL: "http://x", Severity: gpu.Warning})
		if list := b.hooks.Reports(); len(list) != 1 || list[0].Hook.Name != "chat" || list[0].Waiting != 0 || !list[0].Last.Time.IsZero() {
			t.Errorf("at first: %+v", list)
		}
		b.publish(gpu.EventCritical, gpu.Serious, "hot")
		b.publish(gpu.EventCritical, gpu.Serious, "hotter")
		synctest.Wait()
		if l := b.hooks.Reports()[0]; l.Waiting != 2 || l.Last.Status != Retried || l.Last.Code != gpu.EventCritical || l.Last.Err == nil {
			t.Errorf("while it does not answer: %+v", l)
		}
		well.Store(true)
		b.settle(2)
		synctest.Wait()
		if l := b.hooks.Reports()[0]; l.Waiting != 0 || l.Last.Status != Delivered || l.Last.Err != nil {
			t.Errorf("when it does: %+v", l)
		}
	})
}
