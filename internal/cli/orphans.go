package cli

import (
	"github.com/berth-gpu/berth/api"
)

// strayList is the processes that use devices under no lease.
type strayList struct {
	api.Strays
	gpus indexes
}

func (s *strayList) answer() any { return s.Strays }

func (s *strayList) lines(to screen, _ bool) []string {
	if len(s.Orphans)+len(s.Foreign) == 0 {
		return []string{"No process uses a GPU without a lease."}
	}
	t := &table{columns: []column{
		{title: "GPU"}, {title: "PID", right: true}, {title: "PROCESS", least: 8}, {title: "USER", least: 6}, {title: "MEMORY", right: true}, {title: "LEASE THAT HAS ENDED", least: 8},
	}}
	for _, list := range [][]api.Stray{s.Orphans, s.Foreign} {
		for _, p := range list {
			memory := "open only"
			if m, known := p.Memory.Get(); known {
				memory = m.String()
			}
			t.add(s.gpus.cell(p.GPU), cell{text: pidText(p.PID)}, cell{text: clean(p.Name)}, cell{text: clean(p.User)}, cell{text: memory}, cell{text: clean(p.Lease)})
		}
	}
	summary := plural(len(s.Orphans), "orphan") + ", " + plural(len(s.Foreign), "other") + " that never had a lease"
	return append(t.lines(to.width, to.painter), "", to.hang(plain, "", summary+". berth adopt puts one under a lease."))
}
