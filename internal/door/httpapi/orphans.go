package httpapi

import (
	"cmp"
	"context"

	"github.com/berth-gpu/berth/api"
)

func registerOrphans(s *server) {
	serve(s, on("GET /api/orphans", "leases", "orphans", "Processes that use devices under no lease",
		"The daemon finds them in the process lists of the drivers and, if their lease has ended, by the device files that they have open. "+
			"A daemon that is not root sees only the open files of its own user."), s.orphans)
}

// strayListed is a process with the list that it is on.
type strayListed struct {
	api.Stray
	foreign bool
}

// strayKey identifies a process on a list. Other users may not see it.
type strayKey struct {
	gpu     string
	pid     int
	foreign bool
}

func (s *server) orphans(ctx context.Context, in *Page) (*listed[api.Strays], error) {
	found := s.Desk.Strays.Orphans()
	var all []strayListed
	for _, stray := range found.Orphans {
		all = append(all, strayListed{stray, false})
	}
	for _, stray := range found.Foreign {
		all = append(all, strayListed{stray, true})
	}
	page, more, err := cut(in, s.thisRun(orphansList), in.most(), all,
		func(p strayListed) uint64 { return hide(s, strayKey{p.GPU, p.PID, p.foreign}) }, cmp.Compare)
	if err != nil {
		return nil, err
	}
	strays, sight := api.Strays{Orphans: []api.Stray{}, Foreign: []api.Stray{}, More: more}, sightOf(ctx)
	for _, p := range page {
		list := &strays.Orphans
		if p.foreign {
			list = &strays.Foreign
		}
		*list = append(*list, sight.stray(p.Stray))
	}
	return answerPage(in, more, strays)
}
