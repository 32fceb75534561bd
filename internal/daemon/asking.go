package daemon

import (
	"time"

	"github.com/prometheus/prometheus/storage"

	"github.com/berth-gpu/berth/internal/ask"
	"github.com/berth-gpu/berth/internal/httpapi"
	"github.com/berth-gpu/berth/internal/promapi"
	"github.com/berth-gpu/berth/internal/series"
)

// openAsking returns the engine that answers questions about a store. Without a
// store there is none: the past is off.
func openAsking(store storage.Queryable) *ask.Engine {
	if store == nil {
		return nil
	}
	return ask.New(store, ask.Default())
}

// asking returns the routes under /api/v1. Each of engine, rules and metadata may
// be nil.
func asking(engine *ask.Engine, rules promapi.Rules, metadata func() []series.Metric) []httpapi.Guest {
	from := promapi.Sources{Rules: rules, Metadata: metadata, Version: ask.Version, Now: time.Now}
	if engine != nil { // an interface with a nil pointer in it would not be nil
		from.Engine = engine
	}
	var guests []httpapi.Guest
	for _, route := range promapi.Routes(from) {
		guests = append(guests, httpapi.Guest(route))
	}
	return guests
}
