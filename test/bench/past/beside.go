package main

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/berth-gpu/berth/internal/history/series"
)

// peer is Prometheus' own storage, as a server that keeps 90 days has it.
type peer struct {
	db      *tsdb.DB
	refs    map[uint64]storage.SeriesRef // by the hash of the labels
	compact time.Time                    // when files were joined last
}

func openPeer(dir string) (*peer, error) {
	o := tsdb.DefaultOptions()
	o.RetentionDuration = int64(90 * 24 * time.Hour / time.Millisecond)
	o.MaxBlockDuration = o.RetentionDuration / 10 // as the server sets it
	db, err := tsdb.Open(dir, nil, nil, o, nil)
	if err != nil {
		return nil, err
	}
	db.DisableCompactions() // they follow the time of the samples, not that of the clock
	return &peer{db: db, refs: map[uint64]storage.SeriesRef{}}, nil
}

// write stores what one scrape would bring.
func (p *peer) write(at time.Time, list []series.Sample) error {
	a := p.db.Appender(context.Background())
	for _, s := range list {
		key := s.Labels.Hash()
		ref, err := a.Append(p.refs[key], s.Labels, at.UnixMilli(), s.Value)
		if err != nil {
			return err
		}
		p.refs[key] = ref
	}
	if err := a.Commit(); err != nil {
		return err
	}
	if at.Sub(p.compact) < 2*time.Hour {
		return nil
	}
	p.compact = at
	return p.db.Compact(context.Background())
}
