package httpapi

import (
	"testing"

	"github.com/berth-gpu/berth/gpu"
)

// Why a lease was not parked names processes, and for whom it is parked names a lease
// of somebody else: others see neither.
func TestWhyOfAnEventIsForItsUser(t *testing.T) {
	e := gpu.Event{
		Code: gpu.EventParked, User: "ann", Lease: "a", Text: "a was not parked: process 4711 is stopped", Public: "a was not parked",
		Data: map[string]any{"reason": "process 4711 is stopped", "for": "b", "failed": true},
	}
	if got := shown(e, wholeView); got.Text != e.Text || got.Data["reason"] == nil {
		t.Errorf("its user sees %+v", got)
	}
	if got := shown(e, othersView); got.Text != e.Public || got.Data["reason"] != nil || got.Data["for"] == nil {
		t.Errorf("another user sees %+v", got)
	}
	if got := shown(e, viewerView); got.Lease != "" || got.Data["reason"] != nil || got.Data["for"] != nil || got.Data["failed"] != true {
		t.Errorf("a viewer sees %+v", got)
	}
	hook := gpu.Event{Code: gpu.EventHook, Text: "The hook pager does not work", Public: "A hook does not work", Data: map[string]any{"hook": "pager"}}
	if got := shown(hook, othersView); got.Text != hook.Public || got.Data["hook"] != nil {
		t.Errorf("others see of a hook %+v", got)
	}
	e.Public = ""
	if got := shown(e, othersView); got.Data["reason"] == nil {
		t.Errorf("a reason that is public is hidden: %+v", got)
	}
}
