package main

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// leftovers kills the daemon while it writes, again and again. Unfinished files
// must not stay.
func leftovers(ctx context.Context, a *arena) (v verdict, err error) {
	s := setup{}
	d, err := a.serve(ctx, s)
	if err != nil {
		return v, err
	}
	kills := a.size(12, 60)
	for range kills {
		var writers sync.WaitGroup
		short, stop := context.WithCancel(ctx)
		for side := range 3 {
			writers.Go(func() {
				for n := 0; short.Err() == nil; n++ { // until the daemon is killed
					if d.root(short, "PUT", "/api/gpu/config", fmt.Sprintf(`{"temp_optimal":%d}`, 50+(n+side)%10), nil) != nil {
						return
					}
				}
			})
		}
		time.Sleep(20*time.Millisecond + rand.N(40*time.Millisecond))
		d.kill()
		stop()
		writers.Wait()
		if d, err = a.serveIn(ctx, d.dir, s); err != nil {
			return v, err
		}
	}
	var left []string
	err = filepath.WalkDir(filepath.Join(d.dir, "state"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".new-") {
			left = append(left, filepath.Base(path))
		}
		return err
	})
	if len(left) > 0 {
		v.gain("%d files such as %s stay in the state folder after %d kills", len(left), left[0], kills)
	}
	v.noting("after %d kills", kills)
	return v, err
}
