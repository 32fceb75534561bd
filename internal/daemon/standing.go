package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/wholefile"
)

// standings keeps across restarts how far devices are trusted: a daemon that
// is killed does not let a device out of quarantine.
type standings struct {
	path  string // empty: they are not kept
	dirty chan struct{}

	mu  sync.Mutex // guards all
	all map[string]health.Standing
}

// openStandings reads them. A file that cannot be understood is an error: to
// start without it would be to trust what is not to be trusted.
func openStandings(path string) (*standings, error) {
	s := &standings{path: path, dirty: make(chan struct{}, 1), all: map[string]health.Standing{}}
	if path == "" {
		return s, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s.all)
	}
	if err != nil {
		return nil, fmt.Errorf("read which devices are in quarantine: %s: %w (remove the file to trust all of them)", path, err)
	}
	return s, nil
}

func (s *standings) copy() map[string]health.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.all)
}

// changed notes how a device stands now. It does not wait for the disk.
func (s *standings) changed(uuid string, now health.Standing) {
	s.mu.Lock()
	s.all[uuid] = now
	s.mu.Unlock()
	select {
	case s.dirty <- struct{}{}:
	default: // it is going to be written anyway
	}
}

// rewrite is how long after a failure writing is tried again.
const rewrite = 10 * time.Second

// run writes what changes until ctx ends, and what is left then. What a full
// disk does not take is tried again until it does, and complained of once.
func (s *standings) run(ctx context.Context, complain func(error)) {
	failed := false
	write := func() {
		text, err := json.Marshal(s.copy())
		if err == nil {
			err = wholefile.Write(s.path, text)
		}
		if err != nil && !failed {
			complain(fmt.Errorf("write down which devices are in quarantine, which is tried again: %w", err))
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
