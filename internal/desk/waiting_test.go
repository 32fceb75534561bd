package desk

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
)

func TestAPatientRequestHasNoDeadline(t *testing.T) {
	now := time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)
	for wait, want := range map[time.Duration]bool{0: true, time.Hour: true, lease.MaxWait - time.Second: true, lease.MaxWait: false} {
		r := lease.Request{ID: "train", Requested: now, Deadline: now.Add(wait)}
		if got := WaitingOf(&r, 1).Deadline != nil; got != want {
			t.Errorf("a request that waits %s shows a deadline: %v, want %v", wait, got, want)
		}
	}
}
