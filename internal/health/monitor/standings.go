package monitor

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/when"
)

// Standings remembers in a file how far devices are trusted, so that a daemon that is
// killed does not let a device out of quarantine.
type Standings struct {
	file *file.State[map[string]health.Standing]

	mu  sync.Mutex // guards all
	all map[string]health.Standing
}

// OpenStandings reads the file at path. An empty path means no file. OpenStandings sets a
// damaged file aside, and then no device is in quarantine.
func OpenStandings(path string) (*Standings, *file.Damage) {
	s := &Standings{all: map[string]health.Standing{}, file: file.NewState[map[string]health.Standing](path, file.StateOptions{
		What: "which devices are in quarantine",
		Lost: "No GPU is in quarantine or on probation until it shows a fault again. Look at the file, and drain GPUs that are not to be used.",
	})}
	return s, s.file.Load(s.take)
}

// take takes over the content of the file.
func (s *Standings) take(read map[string]health.Standing) error {
	if read == nil {
		return errors.New("it has no devices")
	}
	now := when.Now()
	for uuid, standing := range read {
		s.all[uuid] = standing.Bounded(now)
	}
	return nil
}

// All returns the standing of every device that was ever in trouble, by UUID.
func (s *Standings) All() map[string]health.Standing {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.all)
}

// Changed records the standing of a device. It does not wait for the disk.
func (s *Standings) Changed(uuid string, now health.Standing) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.all[uuid] = now
	s.mu.Unlock()
	s.file.Change(0)
}

// Run writes the file when something has changed, until ctx ends, and then once more if
// something is left. If a write fails, Run calls complain once and tries again until it
// succeeds.
func (s *Standings) Run(ctx context.Context, complain func(error)) {
	_ = s.file.Run(ctx, func() error { return s.file.Save(s.All()) }, complain) // a failure was told
}
