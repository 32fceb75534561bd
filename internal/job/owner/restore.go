package owner

import (
	"encoding/json"
	"time"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/job/service"
)

// version is the version of services.json.
const version = 1

// Without returns the text of a services.json for a daemon that does not know the programs
// of services: those that ran, and that runs does not report to be minded still, are away,
// and their leases are given back. The settings with which they were started, and their
// environments, are not in it. It also returns how many there were. The epochs of all go on
// after those that they had until now: a front that lives on knows them.
func Without(text []byte, now time.Time, runs func(run string) bool) (without []byte, gone int, err error) {
	var all struct {
		Version int `json:"version"`
		kept
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, 0, err
	}
	if all.Version != version {
		return nil, 0, file.VersionError(all.Version, version)
	}
	for name, life := range all.Services {
		if life == nil {
			continue
		}
		life.Epoch = max(life.Epoch, service.FirstEpoch(now))
		if life.Instance == nil || runs(life.Instance.Run()) {
			continue
		}
		gone++
		all.Leftovers = append(all.Leftovers, *leftoverOf(name, life.Instance))
		life.State, life.Instance, life.Why = service.Away, nil, "the state was restored from a backup"
	}
	all.Fronts = nil
	without, err = json.Marshal(all)
	return without, gone, err
}
