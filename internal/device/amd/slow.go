package amd

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// Slow reads the fan, the error counters, and the recent share of each process.
func (c *card) Slow(ctx context.Context, into *gpu.Slow) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := c.at.Load()
	if at.Gone() {
		return c.silent(at, nil)
	}
	got := gpu.Slow{SlowTime: into.SlowTime, Energy: at.sensors.Joules("energy1_input"), Fan: at.sensors.Fan()}
	if corrected, uncorrected, ok := readErrors(at); ok {
		got.ECCCorrected, got.ECCUncorrected = gpu.Some(corrected), gpu.Some(uncorrected)
	}
	const lately = 10 * time.Second
	if shares := c.usage.Over(lately); shares.From.Before(shares.Until) {
		got.ProcessUtilization = shares.Process
	}
	*into = got
	return nil
}

// readErrors sums the errors that the parts of a GPU have counted, corrected and
// uncorrected. It reports false if no part counts.
func readErrors(at *place) (corrected, uncorrected int64, ok bool) {
	files, _ := filepath.Glob(filepath.Join(at.Device, "ras/*_err_count"))
	for _, file := range files {
		text, err := drm.Text(file)
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
