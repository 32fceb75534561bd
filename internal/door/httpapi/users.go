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
	"github.com/berth-gpu/berth/internal/lease/archive"
)

func registerUsers(s *server) {
	serve(s, on("GET /api/users", "access", "users", "What each user holds, waits for and has used",
		"Sums over the leases that there are, the requests that wait, and the ended leases that the daemon remembers. Only operators see the limits of others."), s.users)
}

type usersQuery struct{ Page }

func (s *server) users(ctx context.Context, in *usersQuery) (*listed[api.Users], error) {
	all, now := &userSums{sight: sightOf(ctx), of: map[string]*userSum{}}, time.Now()
	view := s.Ledger.View()
	for _, h := range view.Leases {
		l := desk.LeaseOf(h)
		all.at(h.Holder.User).holds(&l, now)
	}
	for _, r := range view.Waiting {
		w := desk.WaitingOf(r, 0)
		all.at(r.Holder.User).waits(&w)
	}
	for _, past := range s.Past.All() {
		all.at(past.User).had(&past)
	}
	for _, used := range s.Desk.Used(func(u api.EnergyUse) api.EnergyUse { return u }).Used {
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
			if quota, err := s.Desk.Quota(by, limits, name); err == nil { // else the user is gone from the machine
				it.Limits = quota.Limits
			}
		}
		list = append(list, it.UserUse)
	}
	slices.SortFunc(list, func(a, b api.UserUse) int {
		return cmp.Or(cmp.Compare(b.Memory, a.Memory), strings.Compare(a.User, b.User))
	})
	page, more, err := cut(&in.Page, usersList, in.most(), list, func(u api.UserUse) string { return u.User }, strings.Compare)
	if err != nil {
		return nil, err
	}
	return answerPage(&in.Page, more, api.Users{Users: page, More: more})
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

// holds adds a lease. The hours of a pool are those of the leases from it, too.
func (u *userSum) holds(l *api.Lease, now time.Time) {
	u.Leases++
	lasted := max(0, now.Sub(l.Granted).Hours())
	u.LeaseHours += lasted
	for i, p := range l.Parts {
		u.Measured += p.Measured.Or(0)
		if l.State == "parked" { // it holds nothing
			continue
		}
		u.devices[p.GPU] = true
		u.Slots += p.Slots
		u.Memory += l.Holds(i)
		if l.FromPool == "" {
			u.GiBHours += gib(p.Memory) * lasted
		}
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

// had adds a lease that has ended.
func (u *userSum) had(p *archive.Past) {
	u.Ended++
	lasted := p.Ended.Sub(p.Granted).Hours()
	u.LeaseHours += lasted
	for _, part := range p.Parts {
		if p.Pool == "" {
			u.GiBHours += gib(part.Memory) * lasted
		}
	}
}

func gib(m gpu.MiB) float64 { return float64(m) / 1024 }
