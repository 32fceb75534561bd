package pace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
)

// An owner's share stops the owner's processes and no others; an operator's stops
// all of them.
func TestOwnersSpareOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users")
	}
	const ada = 65534
	own := start(t, "echo up; read line", &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: ada, Gid: ada}})
	roots := spin(t)
	if _, err := own.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	l := someLease()
	l.Holder.UID = ada
	b := &book{lease: l, members: []process.ID{own.id, roots.id}}
	r := newRig(t, b, filepath.Join(t.TempDir(), FileName))
	hold := Hold{Key: l.Key(), Fence: l.Fence, Share: 0.5, Source: ByOwner}
	if err := r.Hold(hold); err != nil {
		t.Fatal(err)
	}
	e := <-r.events
	if spared, _ := e.Data["spared"].([]string); e.Code != gpu.EventPaced || len(spared) != 1 || !strings.Contains(e.Text, spared[0]) || strings.Contains(e.Public, spared[0]) {
		t.Errorf("the event is %+v, and for others %q", e, e.Public)
	}
	for range 3 {
		until(t, "the owner's process is stopped", func() bool {
			if stopped(t, roots.id) {
				t.Fatal("a process of root is stopped in the name of another user")
			}
			return stopped(t, own.id)
		})
		until(t, "it runs again", func() bool { return !stopped(t, own.id) })
	}
	hold.Source, hold.Share = ByOperator, 0.4
	if err := r.Hold(hold); err != nil {
		t.Fatal(err)
	}
	until(t, "an operator's share stops it", func() bool { return stopped(t, roots.id) })
	r.Let(l.Fence, gpu.By{}, ByOperator)
	until(t, "it runs again", func() bool { return !stopped(t, roots.id) })

	b.mu.Lock()
	b.members = []process.ID{roots.id}
	b.mu.Unlock()
	hold.Source = ByOwner
	refused := (*RefusedError)(nil)
	if err := r.Hold(hold); !errors.As(err, &refused) || !strings.Contains(refused.Why, "belong to other users") {
		t.Errorf("nothing of it is the owner's: %v", err)
	}
}
