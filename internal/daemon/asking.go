package daemon

import (
	"time"

	"github.com/berth-gpu/berth/internal/ask"
	"github.com/berth-gpu/berth/internal/httpapi"
	"github.com/berth-gpu/berth/internal/promapi"
)

// openAsking makes the engine that answers questions about the past. A daemon
// that only looks has none.
func (d *Daemon) openAsking() {
	if d.past != nil {
		d.engine = ask.New(d.past.Queryable(), ask.Default())
	}
}

// asking returns the routes under /api/v1.
func (d *Daemon) asking() []httpapi.Guest {
	from := promapi.Sources{Version: ask.Version, Now: time.Now}
	if d.engine != nil { // an interface with a nil pointer in it would not be nil
		from.Engine, from.Metadata = d.engine, d.recorder.Metadata
	}
	var guests []httpapi.Guest
	for _, route := range promapi.Routes(from) {
		guests = append(guests, httpapi.Guest(route))
	}
	return guests
}
