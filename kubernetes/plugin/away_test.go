package plugin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/kubernetes/slice"
)

// silent is a daemon that does not answer.
type silent struct{ Daemon }

func (silent) StatusAllWithLeases(context.Context) (api.StatusAll, error) {
	return api.StatusAll{}, errors.New("no daemon")
}

// A driver that starts while the daemon is away taints the devices that the driver before
// it has published: it knows none itself, and pods would be scheduled there.
func TestTheDaemonIsAwayFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, p := reporting()
		p.devices, p.fails = []resourcev1.Device{{Name: "gpu-1"}}, errors.New("the API server refuses")
		d.o.Daemon, d.began, d.publisher, d.shape = silent{}, time.Now(), slice.New("node-1"), slice.Shape{Taints: true}
		var published [][]resourcev1.Device
		d.publish = func(_ context.Context, devices []resourcev1.Device) error {
			published = append(published, devices)
			return nil
		}
		look := func() {
			if err := d.look(t.Context()); err == nil {
				t.Fatal("the daemon answers")
			}
		}
		look()
		time.Sleep(slice.Patience - time.Second)
		look()
		time.Sleep(time.Second)
		look()
		if len(published) != 0 {
			t.Fatalf("published %v before the earlier devices are known", published)
		}
		p.fails = nil
		look()
		look()
		if len(published) != 1 || len(published[0]) != 1 || published[0][0].Name != "gpu-1" || len(published[0][0].Taints) != 1 || len(d.Taints()) != 1 {
			t.Errorf("published %+v", published)
		}
	})
}
