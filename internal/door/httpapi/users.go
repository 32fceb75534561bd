package httpapi

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/history/report"
	"github.com/berth-gpu/berth/internal/lease/archive"
)

func registerUsers(s *server) {
	serve(s, on("GET /api/users", "access", "users", "What each user holds, waits for and has used",
		"Sums over the leases that there are, the requests that wait, and the ended leases that the daemon remembers. Only operators see the limits of others."), s.users)
}

func (s *server) users(ctx context.Context, in *Page) (*listed[api.Users], error) {
	all, now := &userSums{sight: sightOf(ctx), of: map[string]*userSum{}}, time.Now()
	view := s.Ledger.View()
	ended, pools := s.Past.All(), report.Pools[struct{}]{}
	for _, h := range view.Leases {
		if h.Pool {
			pools.Add(h.Holder.User, h.ID, h.Granted, now, struct{}{})
		}
	}
	for _, p := range ended {
		pools.Add(p.User, p.ID, p.Granted, p.Ended, struct{}{})
	}
	for _, h := range view.Leases {
		l := desk.LeaseOf(h)
		all.at(h.Holder.User).holds(&l, ownHours(pools, h.Holder.User, l.FromPool, l.Granted, now), now)
	}
	for _, r := range view.Waiting {
		w := desk.WaitingOf(r, 0)
		all.at(r.Holder.User).waits(&w)
	}
	for _, p := range ended {
		all.at(p.User).had(&p, ownHours(pools, p.User, p.Pool, p.Granted, p.Ended))
	}
	for _, used := range s.Desk.Devices.EnergyUsed(func(u api.EnergyUse) api.EnergyUse { return u }).Used {
		if used.User != "" {
			it := all.at(used.User)
			it.Energy = gpu.Some(it.Energy.Or(0) + used.Energy)
		}
	}
	by, limits := askerOf(ctx), limitsOf(ctx)
	list := make([]api.UserUse, 0, len(all.of))
	for name, it := range all.of {
		it.GPUs = len(it.devices)
		if it.User == name && all.sight.named(access.Held, name) {
			if quota, err := s.Desk.People.Quota(by, limits, name); err == nil { // else the user is gone from the machine
				it.Limits = quota.Limits
			}
		}
		list = append(list, it.UserUse)
	}
	slices.SortFunc(list, func(a, b api.UserUse) int {
		return cmp.Or(cmp.Compare(b.Memory, a.Memory), strings.Compare(a.User, b.User))
	})
	page, more, err := cut(in, usersList, in.most(), list, func(u api.UserUse) string { return u.User }, strings.Compare)
	if err != nil {
		return nil, err
	}
	return answerPage(in, more, api.Users{Users: page, More: more})
}

// userSums adds up what users have, by their names as a caller sees them.
type userSums struct {
	sight sight
	of    map[string]*userSum
}

type userSum struct {
	api.UserUse
	devices map[string]bool
}

func (s *userSums) at(user string) *userSum {
	name := user
	if !s.sight.named(access.Held, user) {
		name = s.sight.user(user)
	}
	it := s.of[name]
	if it == nil {
		it = &userSum{UserUse: api.UserUse{User: name}, devices: map[string]bool{}}
		s.of[name] = it
	}
	return it
}

// ownHours returns the hours for which a lease had its memory by itself: those of a pool are of
// the leases from it, too, as long as it stands.
func ownHours(pools report.Pools[struct{}], user, pool string, granted, ended time.Time) float64 {
	if _, over, found := pools.Of(user, pool, granted); found {
		granted = over
	}
	return max(0, ended.Sub(granted).Hours())
}

// holds adds a lease that had its memory by itself for some hours.
func (u *userSum) holds(l *api.Lease, own float64, now time.Time) {
	u.Leases++
	u.LeaseHours += max(0, now.Sub(l.Granted).Hours())
	for i, p := range l.Parts {
		u.Measured += p.Measured.Or(0)
		if l.State == "parked" { // it holds nothing
			continue
		}
		u.devices[p.GPU] = true
		u.Slots += p.Slots
		u.Memory += l.Holds(i)
		u.GiBHours += gib(p.Memory) * own
	}
}

// waits adds a request that waits.
func (u *userSum) waits(w *api.Waiting) {
	u.Waiting++
	u.Asked += w.Memory * gpu.MiB(max(1, w.GPUs))
	if u.Since == nil || w.Since.Before(*u.Since) {
		since := w.Since
		u.Since = &since
	}
}

// had adds a lease that has ended, and that had its memory by itself for some hours.
func (u *userSum) had(p *archive.Past, own float64) {
	u.Ended++
	u.LeaseHours += p.Ended.Sub(p.Granted).Hours()
	for _, part := range p.Parts {
		u.GiBHours += gib(part.Memory) * own
	}
}

func gib(m gpu.MiB) float64 { return float64(m) / 1024 }
