package plugin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// apiServer is as much of an API server as a driver asks for: claims and their status,
// slices that can be watched, the node and events. It is real HTTP, so that a driver
// that is killed finds everything again, and it can refuse or not answer.
type apiServer struct {
	*httptest.Server

	mu       sync.Mutex
	version  int
	claims   map[string]*resourcev1.ResourceClaim // by namespace/name
	slices   map[string]*resourcev1.ResourceSlice
	changed  chan struct{} // closed at each change of slices
	log      []watched     // what happened to slices
	events   []eventsv1.Event
	writes   int  // of slices
	statuses int  // of claims
	plain    bool // drop the fields of features that are off

	// refuse, if set, answers a request with its status if that is not 0; -1 is no
	// answer at all.
	refuse func(r *http.Request) int
}

type watched struct {
	version int
	kind    string
	slice   resourcev1.ResourceSlice
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{claims: map[string]*resourcev1.ResourceClaim{}, slices: map[string]*resourcev1.ResourceSlice{}, changed: make(chan struct{})}
	mux := http.NewServeMux()
	const claims, slices = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims", "/apis/resource.k8s.io/v1/resourceslices"
	mux.HandleFunc("GET /api/v1/nodes/{name}", s.getNode)
	mux.HandleFunc("GET "+claims, s.listClaims)
	mux.HandleFunc("GET "+claims+"/{name}", s.getClaim)
	mux.HandleFunc("PATCH "+claims+"/{name}/status", s.applyStatus)
	mux.HandleFunc("GET "+slices, s.listSlices)
	mux.HandleFunc("POST "+slices, s.createSlice)
	mux.HandleFunc("PUT "+slices+"/{name}", s.updateSlice)
	mux.HandleFunc("DELETE "+slices+"/{name}", s.deleteSlice)
	mux.HandleFunc("POST /apis/events.k8s.io/v1/namespaces/{namespace}/events", s.createEvent)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		refuse := s.refuse
		s.mu.Unlock()
		if refuse != nil {
			switch code := refuse(r); code {
			case 0:
			case -1:
				_, _ = io.Copy(io.Discard, r.Body) // only then does the end of the connection show
				<-r.Context().Done()
				return
			default:
				fail(w, code, "this API server refuses")
				return
			}
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.Server.CloseClientConnections()
		s.Server.Close()
	})
	return s
}

// refuses makes the server refuse from now on; nil: it does not.
func (s *apiServer) refuses(f func(r *http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = f
}

func answer(w http.ResponseWriter, code int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(what)
}

func fail(w http.ResponseWriter, code int, text string) {
	reason := map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 422: metav1.StatusReasonInvalid}[code]
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code), Message: text,
	})
}

func (s *apiServer) getNode(w http.ResponseWriter, r *http.Request) {
	answer(w, 200, corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: r.PathValue("name"), UID: "11111111-2222-3333-4444-555555555555"}})
}

var claimType = metav1.TypeMeta{Kind: "ResourceClaim", APIVersion: "resource.k8s.io/v1"}

func (s *apiServer) getClaim(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[r.PathValue("namespace")+"/"+r.PathValue("name")]
	if c == nil {
		fail(w, 404, "there is no such claim")
		return
	}
	answer(w, 200, c)
}

func (s *apiServer) listClaims(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := resourcev1.ResourceClaimList{TypeMeta: metav1.TypeMeta{Kind: "ResourceClaimList", APIVersion: "resource.k8s.io/v1"}}
	for _, c := range s.claims {
		if c.Namespace == r.PathValue("namespace") {
			list.Items = append(list.Items, *c)
		}
	}
	answer(w, 200, list)
}

// applyStatus takes what the driver applies as the whole status of devices: nobody
// else writes it here.
func (s *apiServer) applyStatus(w http.ResponseWriter, r *http.Request) {
	var applied resourcev1.ResourceClaim
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &applied); err != nil || r.Header.Get("Content-Type") != string(types.ApplyYAMLPatchType) && r.Header.Get("Content-Type") != "application/apply-patch+yaml" {
		fail(w, 422, fmt.Sprint("not an apply: ", r.Header.Get("Content-Type"), err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[r.PathValue("namespace")+"/"+r.PathValue("name")]
	switch {
	case c == nil:
		fail(w, 404, "there is no such claim")
		return
	case applied.UID != "" && applied.UID != c.UID:
		fail(w, 409, "another claim has the name now")
		return
	}
	s.statuses++
	s.version++
	c.ResourceVersion = fmt.Sprint(s.version)
	c.Status.Devices = applied.Status.Devices
	answer(w, 200, c)
}

// put stores a claim.
func (s *apiServer) put(c *resourcev1.ResourceClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	c = c.DeepCopy()
	c.TypeMeta, c.ResourceVersion = claimType, fmt.Sprint(s.version)
	if old := s.claims[c.Namespace+"/"+c.Name]; old != nil && old.UID == c.UID && c.Status.Allocation != nil {
		c.Status.Devices = old.Status.Devices
	}
	s.claims[c.Namespace+"/"+c.Name] = c
}

func (s *apiServer) remove(c *resourcev1.ResourceClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.claims, c.Namespace+"/"+c.Name)
}

// claim returns a claim as it is stored.
func (s *apiServer) claim(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[c.Namespace+"/"+c.Name].DeepCopy()
}

var sliceType = metav1.TypeMeta{Kind: "ResourceSlice", APIVersion: "resource.k8s.io/v1"}

func (s *apiServer) listSlices(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("watch") == "true" || q.Get("watch") == "1" {
		if q.Get("sendInitialEvents") == "true" {
			fail(w, 422, "this API server does not stream lists")
			return
		}
		s.watchSlices(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := resourcev1.ResourceSliceList{TypeMeta: metav1.TypeMeta{Kind: "ResourceSliceList", APIVersion: "resource.k8s.io/v1"}}
	list.ResourceVersion = fmt.Sprint(s.version)
	for _, name := range slices.Sorted(maps.Keys(s.slices)) {
		list.Items = append(list.Items, *s.slices[name])
	}
	answer(w, 200, list)
}

func (s *apiServer) watchSlices(w http.ResponseWriter, r *http.Request) {
	var after int
	_, _ = fmt.Sscan(r.URL.Query().Get("resourceVersion"), &after)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for {
		s.mu.Lock()
		var next []watched
		for _, e := range s.log {
			if e.version > after {
				next = append(next, e)
			}
		}
		changed := s.changed
		s.mu.Unlock()
		for _, e := range next {
			after = e.version
			_ = json.NewEncoder(w).Encode(map[string]any{"type": e.kind, "object": e.slice})
		}
		_ = flush.Flush()
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

// happened notes a change of a slice. The caller holds s.mu.
func (s *apiServer) happened(kind string, one *resourcev1.ResourceSlice) {
	s.version++
	s.writes++
	one.ResourceVersion = fmt.Sprint(s.version)
	s.log = append(s.log, watched{s.version, kind, *one.DeepCopy()})
	close(s.changed)
	s.changed = make(chan struct{})
}

// keep drops the fields of features that are off.
func (s *apiServer) keep(one *resourcev1.ResourceSlice) {
	one.TypeMeta = sliceType
	if !s.plain {
		return
	}
	for i := range one.Spec.Devices {
		d := &one.Spec.Devices[i]
		d.AllowMultipleAllocations, d.Taints = nil, nil
		for name, capacity := range d.Capacity {
			capacity.RequestPolicy = nil
			d.Capacity[name] = capacity
		}
	}
}

func (s *apiServer) createSlice(w http.ResponseWriter, r *http.Request) {
	one := new(resourcev1.ResourceSlice)
	if err := json.NewDecoder(r.Body).Decode(one); err != nil {
		fail(w, 422, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(one)
	if one.Name == "" {
		one.Name = fmt.Sprint(one.GenerateName, s.version)
	}
	one.UID = types.UID(fmt.Sprint("slice-", s.version))
	if r.URL.Query().Get("dryRun") == "" {
		s.slices[one.Name] = one
		s.happened("ADDED", one)
	}
	answer(w, 201, one)
}

func (s *apiServer) updateSlice(w http.ResponseWriter, r *http.Request) {
	one := new(resourcev1.ResourceSlice)
	if err := json.NewDecoder(r.Body).Decode(one); err != nil {
		fail(w, 422, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.slices[one.Name]
	if old == nil {
		fail(w, 404, "there is no such slice")
		return
	}
	if old.ResourceVersion != one.ResourceVersion {
		fail(w, 409, "the slice has changed")
		return
	}
	s.keep(one)
	s.slices[one.Name] = one
	s.happened("MODIFIED", one)
	answer(w, 200, one)
}

func (s *apiServer) deleteSlice(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.slices[r.PathValue("name")]
	if one == nil {
		fail(w, 404, "there is no such slice")
		return
	}
	delete(s.slices, one.Name)
	s.happened("DELETED", one)
	answer(w, 200, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
}

// devices returns what is published, in the order of the scheduler.
func (s *apiServer) devices() []resourcev1.Device {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []resourcev1.Device
	for _, name := range slices.Sorted(maps.Keys(s.slices)) {
		all = append(all, s.slices[name].DeepCopy().Spec.Devices...)
	}
	return all
}

func (s *apiServer) createEvent(w http.ResponseWriter, r *http.Request) {
	var e eventsv1.Event
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		fail(w, 422, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	answer(w, 201, e)
}

// said returns the notes of the events on a pod with a reason.
func (s *apiServer) said(pod, reason string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, e := range s.events {
		if e.Regarding.Name == pod && e.Reason == reason {
			all = append(all, e.Note)
		}
	}
	return all
}

// on returns a refusal of the requests to some paths.
func on(method, part string, code int) func(*http.Request) int {
	return func(r *http.Request) int {
		if r.Method == method && strings.Contains(r.URL.Path, part) {
			return code
		}
		return 0
	}
}
