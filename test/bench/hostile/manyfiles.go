package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// board is what the driver of an AMD GPU shows of it in /sys/class/drm.
var board = map[string]string{
	"card%d/device/uevent":                 "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=1002:740F\nPCI_SLOT_NAME=0000:8%d:00.0\n",
	"card%d/device/unique_id":              "a7c5fd4b7a1e9c3%d\n",
	"card%d/device/mem_info_vram_total":    "68702699520\n",
	"card%d/device/mem_info_vram_used":     "11104256\n",
	"card%d/device/gpu_busy_percent":       "0\n",
	"card%d/device/drm/card%[1]d/dev":      "226:%d\n",
	"card%d/device/drm/renderD12%[1]d/dev": "226:12%d\n",
}

// manyFiles opens as many files as a user may have, in many processes: the backends of AMD
// and Intel look which processes have a GPU open.
func manyFiles(ctx context.Context, a *arena) (v verdict, err error) {
	root := filepath.Join(a.dir, "machine")
	for card := 1; card <= 2; card++ {
		for name, text := range board {
			path := filepath.Join(root, "sys/class/drm", fmt.Sprintf(name, card))
			if strings.Contains(text, "%d") {
				text = fmt.Sprintf(text, card)
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				return v, err
			}
		}
	}
	if err := os.Symlink("/proc", filepath.Join(root, "proc")); err != nil { // of this machine
		return v, err
	}
	d, err := a.serve(ctx, setup{devices: "amd:" + root, config: "gpu: {max_pipelines: 1000}"})
	if err != nil {
		return v, err
	}
	// away returns how many devices do not answer.
	away := func() (n int) {
		var all api.StatusAll
		if err := d.root(ctx, "GET", "/api/gpu/status/all", "", &all); err != nil || len(all.GPUs) != 2 {
			return 2
		}
		for _, each := range all.GPUs {
			if each.State == gpu.Unavailable {
				n++
			}
		}
		return n
	}
	if !eventually(20*time.Second, func() bool { return away() == 0 }) {
		return v, fmt.Errorf("the devices do not answer before the attack:\n%s", d.logText())
	}
	const processes = 60
	quiet, err := d.besideLoad(ctx, 1)
	if err != nil {
		return v, err
	}
	var sum atomic.Int64
	var all errgroup.Group
	for range processes {
		all.Go(func() error {
			opened := int64(0)
			_, err := a.act(ctx, attacker, 0, "files", 19_000, &opened)
			sum.Add(opened)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return v, err
	}
	// A busy machine may be late once.
	var longest, since time.Duration
	for began := time.Now(); time.Since(began) < a.lasting(3500*time.Millisecond, 45*time.Second); pause(ctx, 100*time.Millisecond) {
		if away() == 0 {
			since = time.Since(began)
		}
		longest = max(longest, time.Since(began)-since)
	}
	if longest > 2*time.Second {
		v.gain("devices did not answer for %v, since one user has %d open files", longest.Round(100*time.Millisecond), sum.Load())
	}
	loud, err := d.besideLoad(ctx, 1)
	if err != nil {
		return v, err
	}
	v.noting("%d open files; a device was away for at most %v", sum.Load(), longest.Round(100*time.Millisecond))
	return v, d.survives(&v, "many open files", quiet, loud)
}

// openFiles opens a number of files, as far as this user may, and keeps them.
func openFiles(ctx context.Context, in json.RawMessage, say func(any)) error {
	var most int
	if err := json.Unmarshal(in, &most); err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	opened := 0
	for ; opened < most; opened++ {
		if _, err := syscall.Dup(int(os.Stderr.Fd())); err != nil {
			break
		}
	}
	say(opened)
	<-ctx.Done()
	return nil
}
