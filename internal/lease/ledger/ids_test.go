package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// TestTwoUsersUseOneID: leases, requests, measurements and a restart keep two
// users apart who use the same id.
func TestTwoUsersUseOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		first := k.grant(want("train", 40, ttl(time.Hour)))
		second := k.grant(want("train", 30, of(2), ttl(time.Minute)))
		if err := k.refused(want("train", 1)); !errors.Is(err, lease.ErrDuplicate) {
			t.Errorf("one's own id again: %v", err)
		}
		waits := k.queue(t.Context(), want("train", 90, of(3), wait(time.Hour)))
		for _, id := range []string{"train", "none"} { // the refusal does not tell whether others have it
			if _, err := k.Release(t.Context(), byID(id), 0, by(4)); !errors.Is(err, lease.ErrUnknown) || strings.ReplaceAll(err.Error(), id, "") != "release : there is no lease or request with this id among yours" {
				t.Errorf("a stranger's release of %s: %v", id, err)
			}
		}

		// Each renews, resizes and releases what is their own.
		renewed, err := k.Renew(t.Context(), byID("train"), 0, 2*time.Minute, by(2), nil)
		if err != nil || renewed.Fence != second.Fence {
			t.Fatalf("the second renewed %+v, %v", renewed, err)
		}
		resized, err := k.Resize(t.Context(), byID("train"), 0, 50, by(1), nil, 0)
		if err != nil || resized.Fence != first.Fence {
			t.Fatalf("the first resized %+v, %v", resized, err)
		}
		several := (*lease.AmbiguousError)(nil)
		if _, err := k.Release(t.Context(), byID("train"), 0, admin(0)); !errors.As(err, &several) ||
			!slices.Equal(several.Names, []lease.Name{{User: "user1", ID: "train"}, {User: "user2", ID: "train"}, {User: "user3", ID: "train"}}) {
			t.Errorf("an administrator's release: %v", err)
		}
		before := k.standing()

		k.stop()
		<-waits
		k = w.start(t)
		k.device(0, 100)
		if after := k.standing(); after != before {
			t.Errorf("the book was\n%s\nand after a restart\n%s", before, after)
		}
		if _, err := k.Release(t.Context(), lease.Name{User: "user1", ID: "train"}, 0, admin(0)); err != nil {
			t.Fatal(err)
		}
		if held, stands := k.Find(second.Key()); !stands || held.Fence != second.Fence {
			t.Error("the release ended the lease of another user")
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if leases := k.leases(); len(leases) != 0 {
			t.Errorf("%v stand", leases)
		}
	})
}

// TestMeasuredByUser: what the processes of a user use is charged to the lease of
// that user, and not to that of another with the same id.
func TestMeasuredByUser(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	one, other := child(t), child(t)
	k.grant(want("train", 20, k.bound(one.Process.Pid)))
	k.grant(want("train", 30, of(2), k.bound(other.Process.Pid)))
	k.device(0, 100, used(one.Process.Pid, 25), used(other.Process.Pid, 10))
	for user, measured := range map[int]gpu.MiB{1: 25, 2: 10} {
		r := want("train", 0, of(user))
		held, stands := k.Find(r.Key())
		if !stands || held.Measured[0] != gpu.Some(measured) {
			t.Errorf("of user %d: %+v", user, held)
		}
		if list := k.BelongingTo(held.Lease); len(list) != 1 || list[0].Memory != measured {
			t.Errorf("belonging to user %d: %+v", user, list)
		}
	}
	kill(t, one)
	k.told(gpu.EventReleased, "train")
	r := want("train", 0, of(2))
	if _, stands := k.Find(r.Key()); !stands {
		t.Error("the lease of the other user ended too")
	}
}
