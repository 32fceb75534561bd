package health

import "time"

// Drain means that somebody takes a device out of use: its leases go on, and berth grants
// no new ones. A drain does not judge the device: its state and health stay the same.
type Drain struct {
	By    string    `json:"by,omitempty"` // who asked for it, for people
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // when it ends by itself; zero if only undrain ends it
}

// Over reports whether the drain has ended by itself.
func (d Drain) Over(now time.Time) bool { return !d.Until.IsZero() && !now.Before(d.Until) }

// Reason says that the device is drained, to follow a colon. It does not name the user
// who asked for it: not everybody may see names.
func (d Drain) Reason() string {
	text := "it is drained"
	if !d.Until.IsZero() {
		text += " until " + moment(d.Until)
	}
	if d.Why != "" {
		text += ": " + d.Why
	}
	return text
}
