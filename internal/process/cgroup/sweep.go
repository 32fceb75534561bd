package cgroup

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Sweep removes the groups whose names begin with a prefix and that were made before a
// time, except those with processes or groups in them, which the kernel keeps. Whoever made
// such a group has ended before removing it, and may never come back.
func Sweep(ctx context.Context, prefix string, before time.Time) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return
	}
	sweep(ctx, string(mounts), prefix, before)
}

func sweep(ctx context.Context, mounts, prefix string, before time.Time) {
	var tops []string
	if m, err := parseMounts(mounts); err == nil {
		tops = append(tops, m.point)
	}
	for _, c := range controllers {
		if m, separate := findController(mounts, c.name); separate {
			tops = append(tops, m.point)
		}
	}
	for _, top := range tops {
		_ = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				return fs.SkipDir // it is gone, or not for us
			case !e.IsDir() || !strings.HasPrefix(e.Name(), prefix):
				return nil
			}
			if about, err := e.Info(); err == nil && about.ModTime().Before(before) {
				_ = os.Remove(path) // fails as long as something is in it
			}
			return fs.SkipDir
		})
	}
}
