package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/test/bench/figure"
)

// look is what the daemon takes at one moment.
type look struct {
	at     time.Duration // since the first one
	values [quantities]float64
}

// quantity is something that must not grow.
type quantity int

const (
	memory quantity = iota
	alive
	files
	goroutines
	disk
	past
	acquire
	quantities
)

var names = [quantities]string{"resident, MiB", "alive, MiB", "files but the past", "goroutines", "folder, MiB", "the past, MiB", "acquire, p99, ms"}

// bounds has what a quantity grows to by intent: the settings of the past say how much that
// keeps, with two open files for each of its blocks, and a daemon keeps its last events.
var bounds = map[quantity]float64{past: 1024, disk: 256}

// watch looks at the daemon again and again until ctx ends.
func watch(ctx context.Context, l *load, o options) (looks []look) {
	began := time.Now()
	shown := time.Time{}
	for {
		pause(ctx, o.every)
		if ctx.Err() != nil {
			return looks
		}
		one, err := lookAt(l)
		if err != nil {
			continue // it has just been started again, or nobody got a lease since
		}
		one.at = time.Since(began)
		looks = append(looks, one)
		if time.Since(shown) >= o.length/20 {
			shown = time.Now()
			fmt.Printf("%8s", one.at.Round(time.Second))
			for q, value := range one.values {
				fmt.Printf("  %s %.1f", names[q], value)
			}
			fmt.Println()
		}
	}
}

func lookAt(l *load) (one look, err error) {
	l.process.RLock()
	defer l.process.RUnlock()
	if one.values[memory], err = l.d.Resident(); err != nil {
		return one, err
	}
	measured := filepath.Join(l.d.Dir, "state", inventory.Measured)
	open, failed1 := l.d.Files(measured)
	inside, failed2 := l.d.Metrics("go_goroutines", "go_memstats_next_gc_bytes")
	if err := errors.Join(failed1, failed2); err != nil {
		return one, err
	}
	one.values[files], one.values[goroutines] = float64(open), inside[0]
	one.values[alive] = inside[1] / 2 / (1 << 20) // the collector begins when there is twice as much
	one.values[past] = sizeOf(measured) / (1 << 20)
	one.values[disk] = sizeOf(l.d.Dir)/(1<<20) - one.values[past]
	took := l.acquired()
	if len(took) == 0 {
		return one, errors.New("nothing was acquired since the last look")
	}
	one.values[acquire] = figure.Quantile(took, 0.99).Seconds() * 1000
	return one, nil
}

// sizeOf returns the bytes of all files in a folder.
func sizeOf(folder string) (bytes float64) {
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // files come and go
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			bytes += float64(info.Size())
		}
		return nil
	})
	return bytes
}

// line is the straight line that lies nearest to what was seen.
type line struct {
	level float64 // in the middle
	slope float64 // in an hour
	error float64 // of the slope, in an hour: two standard errors
	noise float64 // how far values are from the line: a standard deviation
}

// fit fits a line, by least squares.
func fit(looks []look, q quantity) line {
	n := float64(len(looks))
	var x, y float64
	for _, one := range looks {
		x, y = x+one.at.Hours()/n, y+one.values[q]/n
	}
	var xx, xy float64
	for _, one := range looks {
		xx += (one.at.Hours() - x) * (one.at.Hours() - x)
		xy += (one.at.Hours() - x) * (one.values[q] - y)
	}
	slope := xy / xx
	var rest float64
	for _, one := range looks {
		d := one.values[q] - y - slope*(one.at.Hours()-x)
		rest += d * d
	}
	noise := math.Sqrt(rest / max(n-2, 1))
	return line{level: y, slope: slope, error: 2 * noise / math.Sqrt(xx), noise: noise}
}

// flat reports whether a quantity stays as it is: its slope is not known to be more than
// zero, or comes to less than a fiftieth of the level in an hour.
func (l line) flat() bool {
	return l.slope-l.error <= 0 || l.slope < l.level/50
}

// verdict says in a few words what becomes of a quantity.
func (l line) verdict(bound float64) (text string, grows bool) {
	day := l.level + 24*l.slope
	switch {
	case l.flat():
		return "flat", false
	case bound != 0 && l.level < bound:
		return fmt.Sprintf("fills, to %.0f at most", bound), false
	}
	return fmt.Sprintf("GROWS, to %.0f in a day", day), true
}

// pieces is into how many pieces of time the looks are put together. Looks that follow one
// another see the same services and the same garbage, so that a line through all of them
// would seem surer than it is.
const pieces = 12

// means returns the means of the looks of each piece of time.
func means(looks []look) (all []look) {
	for i := range pieces {
		some := looks[i*len(looks)/pieces : (i+1)*len(looks)/pieces]
		var mean look
		for _, one := range some {
			mean.at += one.at / time.Duration(len(some))
			for q, value := range one.values {
				mean.values[q] += value / float64(len(some))
			}
		}
		all = append(all, mean)
	}
	return all
}

// judge prints the lines. The first third does not count: caches and rings fill.
func judge(looks []look) error {
	if len(looks) < 3*pieces {
		return errors.New("that was too short to say anything: look more often, or go on for longer")
	}
	kept := means(looks[len(looks)/3:])
	fmt.Printf("%-18s %10s %10s %26s %10s  %s\n", "after the first third", "level", "noise", "slope in an hour", "in a day", "")
	grows := 0
	for q := range quantities {
		l := fit(kept, q)
		verdict, more := l.verdict(bounds[q])
		if more {
			grows++
		}
		fmt.Printf("%-18s %10.1f %10.1f %14.2f ± %9.2f %10.1f  %s\n", names[q], l.level, l.noise, l.slope, l.error, l.level+24*l.slope, verdict)
		figure.Say("soak: "+names[q]+", in an hour", l.slope, "an hour", figure.Less)
	}
	if grows > 0 {
		return fmt.Errorf("%d of %d grow", grows, quantities)
	}
	return nil
}
