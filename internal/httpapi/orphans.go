package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/monitor"
	"github.com/berth-gpu/berth/internal/process"
)

func (s *server) registerOrphans() {
	huma.Register(s.api, huma.Operation{
		OperationID: "orphans", Method: http.MethodGet, Path: "/api/orphans", Tags: []string{"leases"},
		Summary: "Processes that use devices under no lease",
		Description: "Found on the lists of the drivers, and, for those whose lease has ended, by the device files that they have open. " +
			"A daemon that is not root sees the open files of its own user only.",
	}, s.orphans)
}

func (s *server) orphans(ctx context.Context, _ *struct{}) (*answer[api.Strays], error) {
	sight := sightOf(ctx)
	strays := api.Strays{Orphans: []api.Stray{}, Foreign: []api.Stray{}}
	listed := map[string]map[int]bool{}
	readings := s.Monitor.Readings()
	for _, r := range readings {
		uuid := r.Device.UUID
		listed[uuid] = map[int]bool{}
		for _, p := range s.Ledger.Processes(uuid) {
			pid := p.Line[0].PID
			listed[uuid][pid] = true
			if p.Lease != nil || s.MPS.Serves(p.Line) {
				continue
			}
			stray := api.Stray{GPU: uuid, PID: pid, Name: p.Name, User: s.strayUser(pid), Memory: gpu.Some(p.Memory), Lease: p.Ended}
			if p.Ended != "" {
				strays.Orphans = append(strays.Orphans, sight.stray(stray))
			} else {
				strays.Foreign = append(strays.Foreign, sight.stray(stray))
			}
		}
	}
	for _, stray := range s.openers(readings, listed) {
		strays.Orphans = append(strays.Orphans, sight.stray(stray))
	}
	return ok(strays)
}

// openers finds processes of ended leases that have a device open and are not
// on its list. Others who have it open may only be looking at it.
func (s *server) openers(readings []monitor.Reading, listed map[string]map[int]bool) []api.Stray {
	files := map[string]string{} // device file to UUID
	var names []string
	for _, r := range readings {
		if r.Device.Path != "" && r.Device.Parent == "" {
			files[r.Device.Path] = r.Device.UUID
			names = append(names, r.Device.Path)
		}
	}
	if len(names) == 0 {
		return nil
	}
	var found []api.Stray
	for file, pids := range process.Proc().Openers(names) {
		for _, pid := range pids {
			if listed[files[file]][pid] {
				continue
			}
			if ended, line := s.Ledger.Orphan(pid); ended != "" && !s.MPS.Serves(line) {
				found = append(found, api.Stray{GPU: files[file], PID: pid, Name: process.Proc().Name(pid), User: s.strayUser(pid), Lease: ended})
			}
		}
	}
	return found
}

// strayUser is the user of a process, for people; empty if it has gone.
func (s *server) strayUser(pid int) string {
	uid, err := process.Proc().UID(pid)
	if err != nil {
		return ""
	}
	return s.Users.Now(uid)
}
