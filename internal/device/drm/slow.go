package drm

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// Slow reads the energy counter, the fan, the error counters, and the recent share of
// each process.
func (c *board) Slow(ctx context.Context, into *gpu.Slow) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := c.at.Load()
	if err := c.lost(at); err != nil {
		return err
	}
	t := c.backend.table
	got := gpu.Slow{SlowTime: into.SlowTime, Energy: at.sensors.Joules(t.Energy...), Fan: at.sensors.Fan()}
	if corrected, uncorrected, ok := at.readErrors(t.Errors); ok {
		got.ECCCorrected, got.ECCUncorrected = gpu.Some(corrected), gpu.Some(uncorrected)
	}
	const lately = 10 * time.Second
	if shares := c.usage.Over(lately); shares.From.Before(shares.Until) {
		got.ProcessUtilization = shares.Process
	}
	*into = got
	return nil
}

// Busy returns the shares that the engines count for each process. The drivers do not
// count work that goes through a driver for computing, so the answer lacks those
// processes.
func (c *board) Busy(ctx context.Context, since time.Time) (device.Busy, error) {
	if err := ctx.Err(); err != nil {
		return device.Busy{}, err
	}
	at := c.at.Load()
	if err := c.lost(at); err != nil {
		return device.Busy{}, err
	}
	now := c.backend.Now()
	used, _, _ := c.backend.openers.Of(&at.Card, now)
	c.usage.Add(now, used)
	shares := c.usage.Since(since)
	return device.Busy{From: shares.From, Until: shares.Until, Shares: shares.Process}, nil
}

// readErrors sums the errors that the parts of a GPU have counted, corrected and
// uncorrected. It reports false if no part counts.
func (p *place) readErrors(pattern string) (corrected, uncorrected int64, ok bool) {
	if pattern == "" {
		return 0, 0, false
	}
	files, _ := filepath.Glob(filepath.Join(p.Dir, pattern))
	for _, file := range files {
		text, err := Text(file)
		if err != nil {
			continue
		}
		ue, ce, valid := parseErrors(text)
		corrected, uncorrected, ok = corrected+ce, uncorrected+ue, ok || valid
	}
	return corrected, uncorrected, ok
}

// parseErrors reads a counter file: "ue: 0" and "ce: 12", each on a line.
func parseErrors(text string) (uncorrected, corrected int64, ok bool) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 48)
		if err != nil || n < 0 {
			continue
		}
		switch strings.TrimSpace(key) {
		case "ue":
			uncorrected, ok = n, true
		case "ce":
			corrected, ok = n, true
		}
	}
	return uncorrected, corrected, ok
}
