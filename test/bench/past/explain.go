package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
)

// explain prints which metrics take the most space in the blocks of a store.
func explain(dir, store string) error {
	list, err := filepath.Glob(filepath.Join(dir, store, "*", "meta.json"))
	if err != nil {
		return err
	}
	type cost struct{ bytes, samples, chunks int }
	costs := map[string]cost{}
	for _, meta := range list {
		b, err := tsdb.OpenBlock(nil, filepath.Dir(meta), chunkenc.NewPool(), nil)
		if err != nil {
			return err
		}
		err = eachChunk(b, func(l labels.Labels, c chunkenc.Chunk) {
			name := l.Get("__name__")
			sum := costs[name]
			sum.bytes += len(c.Bytes())
			sum.samples += c.NumSamples()
			sum.chunks++
			costs[name] = sum
		})
		if err != nil {
			return err
		}
		if err := b.Close(); err != nil {
			return err
		}
	}
	names := slices.SortedFunc(maps.Keys(costs), func(a, b string) int { return cmp.Compare(costs[b].bytes, costs[a].bytes) })
	for _, name := range names[:min(len(names), 20)] {
		c := costs[name]
		fmt.Printf("  %-7s %7.2f MB %6.2f bytes a sample, %5d samples a chunk  %s\n", store, float64(c.bytes)/1e6, float64(c.bytes)/float64(c.samples), c.samples/c.chunks, name)
	}
	return nil
}

func eachChunk(b *tsdb.Block, see func(labels.Labels, chunkenc.Chunk)) error {
	ix, err := b.Index()
	if err != nil {
		return err
	}
	defer ix.Close()
	cr, err := b.Chunks()
	if err != nil {
		return err
	}
	defer cr.Close()
	name, value := index.AllPostingsKey()
	all, err := ix.Postings(context.Background(), name, value)
	if err != nil {
		return err
	}
	var metas []chunks.Meta
	var builder labels.ScratchBuilder
	for all.Next() {
		if err := ix.Series(all.At(), &builder, &metas); err != nil {
			return err
		}
		for _, m := range metas {
			c, _, err := cr.ChunkOrIterable(m)
			if err != nil {
				return err
			}
			see(builder.Labels(), c)
		}
	}
	return all.Err()
}
