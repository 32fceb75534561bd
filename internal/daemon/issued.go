package daemon

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/access/bound"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file"
)

// keysAgain is how often a token that no key has signed makes the daemon read the keys
// again: a cluster exchanges them now and then.
const keysAgain = 10 * time.Second

// issued checks the tokens that a cluster issues for its driver on this node.
type issued struct {
	mu   sync.Mutex
	path string // of the keys; empty if this daemon takes no such token
	want bound.Want
	keys bound.Keys
	read time.Time
}

// readIssued reads the keys of the cluster that the configuration names.
func readIssued(c config.Daemon, host string, warn func(string)) (*issued, error) {
	i := &issued{path: c.ClusterKeys, want: bound.Want{Account: c.ClusterAccount, Node: cmp.Or(c.ClusterNode, host)}}
	if i.path == "" {
		return i, nil
	}
	if err := i.load(warn); err != nil {
		return nil, err
	}
	return i, nil
}

func (i *issued) load(warn func(string)) error {
	f, err := file.ReadTrusted(i.path, warn)
	if err != nil {
		return fmt.Errorf("read the keys of the cluster (daemon.cluster_keys): %w", err)
	}
	keys, err := bound.ParseKeys(f.Text)
	if err != nil {
		return fmt.Errorf("read the keys of the cluster (daemon.cluster_keys): %s: %w. kubectl get --raw /openid/v1/jwks prints them", i.path, err)
	}
	i.keys = keys
	return nil
}

// check verifies a token of the driver, and returns when it expires. The errors are those
// of package bound.
func (i *issued) check(token string, now time.Time) (time.Time, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.path == "" {
		return time.Time{}, bound.ErrForged
	}
	expires, err := i.keys.Check(token, i.want, now)
	if err == bound.ErrForged && now.Sub(i.read) >= keysAgain {
		i.read = now
		if i.load(nil) == nil { // else the old ones stay
			expires, err = i.keys.Check(token, i.want, now)
		}
	}
	return expires, err
}
