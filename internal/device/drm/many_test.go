package drm

import (
	"fmt"
	"testing"
	"time"
)

// However many files of cards processes have open, few enough are known in sum, and each
// process is seen with some. The list says that it is not whole.
func TestKnownFilesAreFewInSum(t *testing.T) {
	o := Root(t.TempDir()).Openers()
	const many = 4000
	for pid := range many {
		p := &opener{pid: pid, due: time.Now().Add(time.Hour)}
		for fd := range mostFiles {
			p.files = append(p.files, &openFile{fd: fmt.Sprint(fd), node: "/dev/dri/renderD128"})
		}
		o.known[pid] = p
	}
	o.shareOut()
	o.looked = time.Now()
	open, complete := o.find([]string{"/dev/dri/renderD128"}, o.looked)
	sum := 0
	for _, p := range open {
		sum += len(p.files)
	}
	if len(open) != many || sum > mostKnown+leastFiles*many || complete {
		t.Errorf("%d files of %d processes are known, complete: %v", sum, len(open), complete)
	}
}

// What is remembered of the past grows with the processes, not with their clients.
func TestUsageForgetsClients(t *testing.T) {
	var u Usage
	used := []Used{{PID: 1}}
	for id := range 1000 {
		used[0].Clients = append(used[0].Clients, Client{ID: uint64(id), Engines: map[string]Engine{"rcs": {}}})
	}
	now := time.Now()
	for range mostMoments {
		u.Add(now, used)
		now = now.Add(time.Second)
	}
	sum := len(u.clients)
	for _, m := range u.past {
		sum += len(m.work)
	}
	if sum > 1000+mostMoments {
		t.Errorf("%d counters are remembered", sum)
	}
}
