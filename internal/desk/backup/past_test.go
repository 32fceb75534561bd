package backup_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/berth-gpu/berth/internal/desk/backup"
)

type point struct {
	t int64
	v float64
}

func (p point) T() int64                      { return p.t }
func (p point) ST() int64                     { return 0 }
func (p point) F() float64                    { return p.v }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

// A flipped byte in a block of what was measured is found, wherever a checksum covers it,
// and so is a cut file.
func TestDamagedBlocks(t *testing.T) {
	var list []storage.Series
	for _, name := range []string{"a", "b", "c"} {
		var samples []chunks.Sample
		for i := range 300 {
			samples = append(samples, point{int64(i) * 1000, float64(i % 7)})
		}
		list = append(list, storage.NewListSeries(labels.FromStrings("__name__", name, "gpu", "0"), samples))
	}
	block, err := tsdb.CreateBlock(list, t.TempDir(), 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for name, begin := range map[string]int{"chunks/000001": 8, "index": 5, "meta.json": -1} {
		data, err := os.ReadFile(filepath.Join(block, name))
		if err != nil {
			t.Fatal(err)
		}
		full := "past/recent/" + filepath.Base(block) + "/" + name
		if err := backup.CheckPast(full, data); err != nil {
			t.Errorf("%s is sound, and %v", name, err)
		}
		if backup.CheckPast(full, data[:len(data)/2]) == nil {
			t.Errorf("%s was cut, and that was not found", name)
		}
		found, tries := 0, 0
		for at := begin; begin >= 0 && at < len(data); at++ {
			data[at] ^= 4
			tries++
			if backup.CheckPast(full, data) != nil {
				found++
			}
			data[at] ^= 4
		}
		if begin >= 0 && found < tries*9/10 { // padding has no checksum
			t.Errorf("%s: %d of %d flipped bits were found", name, found, tries)
		}
	}
}
