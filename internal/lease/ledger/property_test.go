package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
)

// The promises of the ledger, each over random histories of its own; see story.

func TestMemoryIsNeverSoldTwice(t *testing.T) {
	tell(t, func(s *story) {
		view := s.keeper.View().Leases
		for _, l := range slices.Concat(s.fresh, s.grown, s.back) {
			for _, p := range l.Parts {
				for i := range s.devices {
					if left, _ := s.left(i, view); p.GPU == dev(i) && left < 0 {
						s.Fatalf("%s of %s were sold to %s, and %s are missing now", p.Memory, p.GPU, l.ID, -left)
					}
				}
			}
		}
	})
}

func TestSlotsAreNeverExceeded(t *testing.T) {
	tell(t, func(s *story) {
		view := s.keeper.View().Leases
		for _, l := range slices.Concat(s.fresh, s.back) {
			for _, p := range l.Parts {
				for i := range s.devices {
					if _, left := s.left(i, view); p.GPU == dev(i) && p.Slots > 0 && left < 0 {
						s.Fatalf("%d slots of %s were sold to %s, and %d are missing now", p.Slots, p.GPU, l.ID, -left)
					}
				}
			}
		}
	})
}

// Whoever has a device alone is alone there, and nobody gets in.
func TestNobodyIsBesideAnExclusiveLease(t *testing.T) {
	tell(t, func(s *story) {
		view := s.keeper.View().Leases
		for i := range s.devices {
			active := slices.DeleteFunc(slices.Clone(view), func(h Held) bool { return h.State != lease.Active || !h.On(dev(i)) })
			if len(active) > 1 && slices.ContainsFunc(active, func(h Held) bool { return h.Exclusive }) {
				s.Fatalf("%s has %d leases, and one of them should be alone", dev(i), len(active))
			}
		}
	})
}

func TestFencesOnlyGrow(t *testing.T) {
	tell(t, func(s *story) {
		for _, l := range s.fresh {
			if l.Fence <= s.fence {
				s.Fatalf("%s got fence %d after %d", l.ID, l.Fence, s.fence)
			}
			s.fence = l.Fence
		}
	})
}

func TestNothingAcknowledgedIsLost(t *testing.T) {
	tell(t, func(s *story) {
		for k, l := range s.held {
			if stands, found := s.keeper.Find(k); !found || stands.Fence != l.Fence {
				s.Fatalf("%s with fence %d was acknowledged, and is gone", k.ID, l.Fence)
			}
		}
	})
}

// And nothing stands that nobody was told of: whoever did not get an answer
// did not get a lease either.
func TestNothingStandsThatNobodyKnowsOf(t *testing.T) {
	tell(t, func(s *story) {
		if s.trouble {
			return // what expired or was left behind may not be written down yet
		}
		for _, l := range s.keeper.View().Leases {
			if s.held[l.Key()] == nil || s.held[l.Key()].Fence != l.Fence {
				s.Fatalf("%s with fence %d stands, and nobody knows of it", l.ID, l.Fence)
			}
		}
	})
}

func TestNothingWaitsThatCouldBeGranted(t *testing.T) {
	tell(t, func(s *story) {
		view := s.keeper.View()
		if s.trouble || len(view.Waiting) > 5 || len(view.Leases) > 8 {
			return // cannot be granted, or has too many sets to look at all of them
		}
		for i, r := range view.Waiting {
			if !r.Absent && s.grantable(r, view.Waiting[:i], view.Leases) {
				s.Fatalf("%s for %d × %s and %d slots waits, and could be granted", r.ID, r.GPUs, r.Memory, r.Slots)
			}
		}
	})
}

// Whoever waits keeps place and age over a restart. Those who come back are as old as
// they were; those who do not are in nobody's way after a while.
func TestARestartKeepsTheQueue(t *testing.T) {
	tell(t, func(s *story) {
		for k, since := range s.ages {
			r, _, waits := s.keeper.FindWaiting(k)
			switch {
			case !waits:
				delete(s.ages, k)
			case !r.Requested.Equal(since):
				s.Fatalf("%s waits since %s, and waited since %s before the restart", k.ID, r.Requested, since)
			case r.Absent && time.Since(s.restarted) >= returnLimit:
				s.Fatalf("%s has not come back for %s, and holds its place", k.ID, time.Since(s.restarted))
			}
		}
	})
}

func TestEveryRequestEnds(t *testing.T) {
	tell(t, func(s *story) {
		for k, r := range s.asked {
			if late := time.Since(r.deadline); late > retry || late > 0 && !s.trouble {
				s.Fatalf("%s has had no answer for %v", k.ID, late)
			}
		}
		for k, r := range s.wanted {
			if late := time.Since(r.deadline); late > retry || late > 0 && !s.trouble {
				s.Fatalf("%s has had no answer for %v about its lease", k.ID, late)
			}
		}
	})
}

func TestReplayGivesTheSameBook(t *testing.T) {
	tell(t, func(s *story) {
		if s.draw("look", 0, 9) < 9 {
			return
		}
		s.mend()
		s.keeper.stop() // holds the book against the journal
		before := s.keeper.standing()
		s.hear()
		s.begin()
		if after := s.keeper.standing(); after != before {
			s.Fatalf("the book was\n%s\nand after a restart\n%s", before, after)
		}
	})
}
