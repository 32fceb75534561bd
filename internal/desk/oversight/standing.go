package oversight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/health"
)

// Standings remembers in a file how far devices are trusted, so that a daemon that is
// killed does not let a device out of quarantine.
type Standings struct {
	path  string // empty if there is no file
	dirty chan struct{}

	mu  sync.Mutex // guards all
	all map[string]health.Standing
}

// OpenStandings reads the file at path. An empty path means no file. OpenStandings sets a
// damaged file aside, and then no device is in quarantine.
func OpenStandings(path string) (*Standings, *file.Damage) {
	s := &Standings{path: path, dirty: make(chan struct{}, 1), all: map[string]health.Standing{}}
	if path == "" {
		return s, nil
	}
	return s, file.Load(path, "No GPU is in quarantine or on probation until it shows a fault again. Look at the file, and drain GPUs that are not to be used.", s.take)
}

// take parses the text of the file.
func (s *Standings) take(text []byte) error {
	var read map[string]health.Standing
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	if read == nil {
		return errors.New("it has no devices")
	}
	for uuid, standing := range read {
		s.all[uuid] = standing.Bounded()
	}
	return nil
}

// All returns the standing of every device that was ever in trouble, by UUID.
func (s *Standings) All() map[string]health.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.all)
}

// Changed records the standing of a device. It does not wait for the disk.
func (s *Standings) Changed(uuid string, now health.Standing) {
	s.mu.Lock()
	s.all[uuid] = now
	s.mu.Unlock()
	select {
	case s.dirty <- struct{}{}:
	default: // a write is due anyway
	}
}

// rewrite is how long Run waits after a failed write.
const rewrite = 10 * time.Second

// Run writes the file when something has changed, until ctx ends, and then once more if
// something is left. If a write fails, Run calls complain once and tries again until it
// succeeds.
func (s *Standings) Run(ctx context.Context, complain func(error)) {
	failed := false
	write := func() {
		text, err := json.Marshal(s.All())
		if err == nil {
			err = file.Replace(s.path, text)
		}
		if err != nil && !failed {
			complain(fmt.Errorf("cannot write which devices are in quarantine: %w; berth tries again every 10 s", err))
		}
		failed = err != nil
	}
	for s.path != "" {
		var again <-chan time.Time
		if failed {
			again = time.After(rewrite)
		}
		select {
		case <-s.dirty:
			write()
		case <-again:
			write()
		case <-ctx.Done():
			if failed || len(s.dirty) > 0 {
				write()
			}
			return
		}
	}
}
