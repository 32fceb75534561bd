package daemon

import (
	"errors"
	"time"

	"github.com/prometheus/prometheus/storage"

	"github.com/berth-gpu/berth/internal/door/httpapi"
	"github.com/berth-gpu/berth/internal/door/promapi"
	"github.com/berth-gpu/berth/internal/history/past"
	"github.com/berth-gpu/berth/internal/history/query"
	"github.com/berth-gpu/berth/internal/history/series"
)

// whenOpen returns a store that reports an error while store is not open yet.
func whenOpen(store storage.Queryable) storage.Queryable {
	return storage.QueryableFunc(func(from, to int64) (storage.Querier, error) {
		q, err := store.Querier(from, to)
		if errors.Is(err, past.ErrOpening) {
			return nil, &series.Error{Fault: series.Down, Text: err.Error()}
		}
		return q, err
	})
}

// asking returns the routes under /api/v1. rules may be nil.
func (d *Daemon) asking(rules promapi.Rules) []httpapi.Guest {
	from := promapi.Sources{Rules: rules, Version: query.Version, Now: time.Now}
	if d.engine != nil { // an interface with a nil pointer in it would not be nil
		from.Engine, from.On, from.Metadata = d.engine, d.past.On, d.recorder.Metadata
	}
	var guests []httpapi.Guest
	for _, route := range promapi.Routes(from) {
		guests = append(guests, httpapi.Guest(route))
	}
	return guests
}
