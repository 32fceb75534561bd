package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/kubernetes/claim"
)

// stateVersion is the version of the state files. A driver reads files of its own version
// and of earlier ones.
const stateVersion = 1

// state is the driver's record of a claim that it prepared, or began to prepare.
type state struct {
	Version   int         `json:"version"`
	UID       string      `json:"uid"`
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	Template  bool        `json:"template,omitempty"` // whether no other pod can join
	Pods      []claim.Pod `json:"pods"`
	Socket    bool        `json:"socket,omitempty"` // whether the container gets the daemon's socket
	Results   []result    `json:"results"`

	// Request is the request to the daemon. The driver repeats it whenever it has to find
	// the lease, so that its parts never differ.
	Request *api.LeaseRequest `json:"request,omitempty"` // nil for administration, which has no lease and no file
	Fence   uint64            `json:"fence,omitempty"`   // 0 until the lease was seen
}

// result is one device that the scheduler gave to the claim.
type result struct {
	Request string `json:"request"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
	Share   string `json:"share,omitempty"`
	GPU     string `json:"gpu"` // UUID
}

// sameAllocation reports whether both are for the same devices and shares.
func (s *state) sameAllocation(results []result) bool {
	return slices.EqualFunc(s.Results, results, func(a, b result) bool {
		return a.Request == b.Request && a.Pool == b.Pool && a.Device == b.Device && a.Share == b.Share
	})
}

// gpus returns the UUIDs of the devices of the claim, each once.
func (s *state) gpus() []string {
	var all []string
	for _, r := range s.Results {
		if !slices.Contains(all, r.GPU) {
			all = append(all, r.GPU)
		}
	}
	return all
}

// sharesPod reports whether a pod uses both claims.
func (s *state) sharesPod(pods []claim.Pod) bool {
	return slices.ContainsFunc(s.Pods, func(p claim.Pod) bool {
		return slices.ContainsFunc(pods, func(q claim.Pod) bool { return p.UID == q.UID })
	})
}

// results returns the devices of this node that a claim has, in the order of the
// scheduler. It does not fill in UUIDs.
func results(c *resourcev1.ResourceClaim, node string) []result {
	var all []result
	for _, r := range claim.Results(c, node) {
		one := result{Request: r.Request, Pool: r.Pool, Device: r.Device}
		if r.ShareID != nil {
			one.Share = string(*r.ShareID)
		}
		all = append(all, one)
	}
	return all
}

// states is the folder of the state files, one for each claim.
type states struct{ dir string }

func (s states) path(uid string) string { return filepath.Join(s.dir, uid+".json") }

// put writes a whole state file, or leaves the one before.
func (s states) put(st *state) error {
	st.Version = stateVersion
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return fmt.Errorf("write the state of claim %s/%s: %w", st.Namespace, st.Name, err)
	}
	if err := replaceFile(s.path(st.UID), text); err != nil {
		return fmt.Errorf("write the state of claim %s/%s: %w", st.Namespace, st.Name, err)
	}
	return nil
}

// errDamaged means that a state file says nothing, and never will.
var errDamaged = errors.New("is damaged")

// get reads a state file. It returns nil if there is none.
func (s states) get(uid string) (*state, error) {
	text, err := os.ReadFile(s.path(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of claim %s: %w", uid, err)
	}
	st := new(state)
	if err := json.Unmarshal(text, st); err != nil {
		return nil, fmt.Errorf("the state file %s %w: %w", s.path(uid), errDamaged, err)
	}
	if st.Request == nil && st.UID == uid { // one for administration has no file
		return nil, fmt.Errorf("the state file %s %w: it has no request", s.path(uid), errDamaged)
	}
	if st.UID != uid || st.Version < 1 || st.Version > stateVersion {
		return nil, fmt.Errorf("the state file %s is of version %d for claim %q; this driver reads version %d", s.path(uid), st.Version, st.UID, stateVersion)
	}
	return st, nil
}

// remove removes a state file, if there is one.
func (s states) remove(uid string) error {
	if err := os.Remove(s.path(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the state of claim %s: %w", uid, err)
	}
	return syncDir(s.dir)
}

// list returns the claims that have a state file, and removes unfinished files of a
// killed driver. The caller holds the lock.
func (s states) list() ([]string, error) {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("read the state folder: %w", err)
	}
	var uids []string
	for _, f := range files {
		name := f.Name()
		if uid, ok := strings.CutSuffix(name, ".json"); ok && goodUID(uid) {
			uids = append(uids, uid)
		} else if strings.HasPrefix(name, unfinished) {
			_ = os.Remove(filepath.Join(s.dir, name))
		}
	}
	return uids, nil
}

// goodUID reports whether a UID can be the name of a file and the id of a lease.
func goodUID(uid string) bool {
	for _, r := range uid {
		if !(r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') {
			return false
		}
	}
	return uid != "" && len(uid) <= 64 && uid[0] != '-'
}

// madeUID reports whether a text has the form of the UIDs that API servers make: 32
// hexadecimal digits in groups of 8, 4, 4, 4 and 12.
func madeUID(text string) bool {
	for i, r := range text {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (r == '-') || !dash && !('0' <= r && r <= '9' || 'a' <= r && r <= 'f') {
			return false
		}
	}
	return len(text) == 36
}

// unfinished begins the names of files that are being written.
const unfinished = ".new-"

func replaceFile(path string, text []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, unfinished)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return syncDir(dir)
}

// syncDir makes renames and removals in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// parkable reports whether the claim allows berth to park its lease.
func (s *state) parkable() bool {
	return s.Request != nil && slices.Contains(s.Request.Optimize, "park")
}
