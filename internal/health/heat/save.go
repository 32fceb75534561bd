package heat

import (
	"encoding/json"
	"fmt"
	"time"
)

// version is the version of the saved form. A model does not read another one: it learns
// again within minutes.
const version = 2

// saved is the form in which a model outlives the daemon.
type saved struct {
	Version int             `json:"version"`
	At      time.Time       `json:"at"`
	Every   float64         `json:"every"`
	Learnt  learnt          `json:"learnt"`
	Tracks  [horizons]track `json:"tracks"`
}

// MarshalJSON writes what the model has learned. It leaves out forecasts that have not
// come due.
func (m Model) MarshalJSON() ([]byte, error) {
	return json.Marshal(saved{version, m.at, m.every, m.learnt, m.tracks})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Model) UnmarshalJSON(b []byte) error {
	var s saved
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("read a heat model: %w", err)
	}
	if s.Version != version {
		return fmt.Errorf("read a heat model: it has version %d, and this berth reads version %d: let it learn anew", s.Version, version)
	}
	*m = Model{at: s.At, asked: s.At, every: s.Every, learnt: s.Learnt, tracks: s.Tracks}
	m.Fit.survey()
	for h := range m.tracks {
		for _, r := range []*record{&m.tracks[h].Known, &m.tracks[h].Present} {
			r.Seen = max(0, r.Seen)
			r.sort()
		}
	}
	return nil
}
