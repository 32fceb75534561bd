package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/kubernetes/words"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// times are the moments in the life of a pod, as this program saw them. All but sent
// are taken when the event of the watch arrives.
type times struct {
	claim     string    // the claim that the pod names
	sent      time.Time // before the request that creates the pod
	allocated time.Time // its claim has devices
	bound     time.Time // it has a node
	running   time.Time // kwok says that it runs
	deleting  time.Time // somebody has deleted it
	gone      time.Time // it is no longer there
	claimGone time.Time // its claim is no longer there
}

// seen is what the watches of the program have reported.
type seen struct {
	mu     sync.Mutex
	ready  map[string]bool
	pods   map[string]*times // by namespace/name
	claims map[types.UID]*resourcev1.ResourceClaim
	onNode map[string]map[types.UID]*resourcev1.ResourceClaim // allocated claims, by pool
	slices map[string]*resourcev1.ResourceSlice
	writes int // of slices
	sums   sums
	check  func(pod string, c *resourcev1.ResourceClaim) // called for a claim that has just been allocated
}

// watchAll starts the watches, and returns when they are in step with the API server.
func watchAll(ctx context.Context, client kubernetes.Interface) (*seen, error) {
	s := &seen{ready: map[string]bool{}, pods: map[string]*times{}, claims: map[types.UID]*resourcev1.ResourceClaim{}, onNode: map[string]map[types.UID]*resourcev1.ResourceClaim{}, slices: map[string]*resourcev1.ResourceSlice{}, sums: newSums()}
	f := informers.NewSharedInformerFactory(client, 0)
	watch(f.Core().V1().Nodes().Informer(), s.node, func(n *corev1.Node) { delete(s.ready, n.Name) }, s)
	watch(f.Core().V1().Pods().Informer(), s.pod, s.podGone, s)
	watch(f.Resource().V1().ResourceClaims().Informer(), s.claim, s.claimGone, s)
	watch(f.Resource().V1().ResourceSlices().Informer(), s.slice, s.sliceGone, s)
	f.Start(ctx.Done())
	for _, ok := range f.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return nil, errors.New("watch the API server: it does not answer")
		}
	}
	return s, nil
}

// watch calls put for everything new or changed, and drop for what is gone, under the
// lock of s.
func watch[T any](informer cache.SharedIndexInformer, put, drop func(*T), s *seen) {
	locked := func(f func(*T)) func(any) {
		return func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			f(o.(*T))
		}
	}
	// An error is possible only for an informer that has stopped.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: locked(put), UpdateFunc: func(_, o any) { locked(put)(o) }, DeleteFunc: locked(drop)})
}

func (s *seen) node(n *corev1.Node) {
	s.ready[n.Name] = len(n.Spec.Taints) == 0 && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// of returns the times of a pod. The first call makes them.
func (s *seen) of(key string) *times {
	t := s.pods[key]
	if t == nil {
		t = &times{}
		s.pods[key] = t
	}
	return t
}

func (s *seen) pod(p *corev1.Pod) {
	t := s.of(p.Namespace + "/" + p.Name)
	for _, c := range p.Status.ResourceClaimStatuses {
		if c.ResourceClaimName != nil {
			t.claim = *c.ResourceClaimName
		}
	}
	if p.Spec.NodeName != "" {
		set(&t.bound)
	}
	if p.Status.Phase == corev1.PodRunning {
		set(&t.running)
	}
	if p.DeletionTimestamp != nil {
		set(&t.deleting)
	}
}

func (s *seen) podGone(p *corev1.Pod) {
	t := s.of(p.Namespace + "/" + p.Name)
	set(&t.deleting)
	set(&t.gone)
}

func (s *seen) claim(c *resourcev1.ResourceClaim) {
	shares := shares(c)
	s.dropClaim(c.UID)
	s.claims[c.UID] = c
	if len(shares) > 0 {
		pool := shares[0].pool
		if s.onNode[pool] == nil {
			s.onNode[pool] = map[types.UID]*resourcev1.ResourceClaim{}
		}
		s.onNode[pool][c.UID] = c
	}
	if s.sums.put(c.UID, shares) && len(shares) > 0 {
		pod := podOf(c)
		set(&s.of(pod).allocated)
		if s.check != nil {
			s.check(pod, c)
		}
	}
}

func (s *seen) claimGone(c *resourcev1.ResourceClaim) {
	s.dropClaim(c.UID)
	s.sums.put(c.UID, nil)
	set(&s.of(podOf(c)).claimGone)
}

// dropClaim forgets a claim.
func (s *seen) dropClaim(uid types.UID) {
	if old := s.claims[uid]; old != nil {
		for _, share := range shares(old) {
			delete(s.onNode[share.pool], uid)
		}
		delete(s.claims, uid)
	}
}

// claimsOf returns the claims that are allocated on a node.
func (s *seen) claimsOf(node string) []*resourcev1.ResourceClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.onNode[node]))
}

func (s *seen) slice(r *resourcev1.ResourceSlice) {
	if r.Spec.Driver != words.Driver {
		return
	}
	if old := s.slices[r.Name]; old == nil || old.ResourceVersion != r.ResourceVersion {
		s.writes++
	}
	s.slices[r.Name] = r
	for _, d := range r.Spec.Devices {
		s.sums.value(deviceID{r.Spec.Pool.Name, d.Name}, capacity(d))
	}
}

func (s *seen) sliceGone(r *resourcev1.ResourceSlice) {
	s.writes++
	delete(s.slices, r.Name)
}

// set takes the time once.
func set(t *time.Time) {
	if t.IsZero() {
		*t = time.Now()
	}
}

// podOf returns the pod that a claim was made for, as namespace/name.
func podOf(c *resourcev1.ResourceClaim) string {
	if owner := metav1.GetControllerOf(c); owner != nil {
		return c.Namespace + "/" + owner.Name
	}
	return ""
}

func (s *seen) readyNodes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, ready := range s.ready {
		if ready {
			n++
		}
	}
	return n
}

func (s *seen) devices() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.slices {
		n += len(r.Spec.Devices)
	}
	return n
}

// tainted returns how many devices have a taint with this effect.
func (s *seen) tainted(effect resourcev1.DeviceTaintEffect) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.slices {
		for _, d := range r.Spec.Devices {
			if slices.ContainsFunc(d.Taints, func(t resourcev1.DeviceTaint) bool { return t.Effect == effect }) {
				n++
			}
		}
	}
	return n
}

// written returns how often slices were written.
func (s *seen) written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// sent remembers when the request to create a pod was sent.
func (s *seen) sent(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set(&s.of(key).sent)
}

// count returns how many of the pods have had this moment.
func (s *seen) count(pods []string, moment func(*times) time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, key := range pods {
		if t := s.pods[key]; t != nil && !moment(t).IsZero() {
			n++
		}
	}
	return n
}

// times returns the moments of the pods, in their order.
func (s *seen) times(pods []string) []times {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]times, 0, len(pods))
	for _, key := range pods {
		all = append(all, *s.of(key))
	}
	return all
}

// left returns how many pods and claims of a namespace there are.
func (s *seen) left(namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for key, t := range s.pods {
		if strings.HasPrefix(key, namespace+"/") && t.gone.IsZero() {
			n++
		}
	}
	for _, c := range s.claims {
		if c.Namespace == namespace {
			n++
		}
	}
	return n
}

// deleted returns how many pods of a namespace somebody has deleted.
func (s *seen) deleted(namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for key, t := range s.pods {
		if strings.HasPrefix(key, namespace+"/") && !t.deleting.IsZero() {
			n++
		}
	}
	return n
}

// anyDevice returns a device of a node.
func (s *seen) anyDevice(node string) resourcev1.Device {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.slices {
		if r.Spec.Pool.Name == node && len(r.Spec.Devices) > 0 {
			return r.Spec.Devices[0]
		}
	}
	return resourcev1.Device{}
}

// users returns the pods that have claims on each device, and how many claims it leaves
// out because their pods name another one: under load the controller manager of
// Kubernetes 1.36 now and then makes a second claim from the template of a pod whose
// first one is allocated already, and points the pod to the second. Nothing evicts such
// a pod by the device of the first.
func (s *seen) users() (used map[deviceID][]string, replaced int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used = map[deviceID][]string{}
	for _, c := range s.claims {
		held, pod := shares(c), podOf(c)
		if len(held) > 0 && s.of(pod).claim != c.Name {
			replaced++
			continue
		}
		for _, share := range held {
			used[share.deviceID] = append(used[share.deviceID], pod)
		}
	}
	return used, replaced
}

// there returns the names of the pods of a namespace that are not gone.
func (s *seen) there(namespace string) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, t := range s.pods {
		if name, ok := strings.CutPrefix(key, namespace+"/"); ok && t.gone.IsZero() {
			names = append(names, name)
		}
	}
	return names
}

// keys returns the pods of a namespace.
func (s *seen) keys(namespace string) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.pods {
		if strings.HasPrefix(key, namespace+"/") {
			keys = append(keys, key)
		}
	}
	return keys
}
