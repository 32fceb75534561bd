package claim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-gpu/berth/gpu"
)

// devices finds gpu-N, and its fixed shares of 1000 MiB and one slot.
// services are those of the daemon's configuration.
var services = Services{"embedding-service": {"other", "ml"}, "theirs": {"other"}, "no-body": nil}

func devices(name string) (string, gpu.MiB, int, bool) {
	base, _, fixed := strings.Cut(name, "-s")
	if !strings.HasPrefix(name, "gpu-") {
		return "", 0, 0, false
	}
	uuid := "GPU-" + strings.TrimPrefix(base, "gpu-")
	if fixed {
		return uuid, 1000, 1, true
	}
	return uuid, 143259, 4, true
}

func request(t *testing.T, c *resourcev1.ResourceClaim, alone bool) string {
	t.Helper()
	read, err := Read(c, node)
	if err != nil {
		t.Fatal(err)
	}
	r, err := read.Request(devices, services, alone)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func lease(rest string) string {
	return `{"apiVersion":"gpu.berth.dev/v1alpha1","kind":"Lease"` + rest + `}`
}

func TestRequest(t *testing.T) {
	one := func() *resourcev1.ResourceClaim { return sample(got("gpu", "gpu-1", "s1", "8Gi 1")) }
	const (
		head  = `{"id":"` + claimUID + `",`
		named = `"name":"ml/embed-0","binding":"named","timeout_seconds":0,`
		scope = `"scope":["pod` + podUID + `"],`
		parts = `"parts":[{"gpu":"GPU-1","memory_mb":8192,"slots":1}],"admitted":true`
	)
	for _, c := range []struct {
		name  string
		claim *resourcev1.ResourceClaim
		alone bool
		want  string
	}{
		{"no parameters", one(), true, head + named + `"enforce":"auto",` + scope + parts + `,"caps":["cupy","jax"]}`},
		{"with another claim", one(), false, head + named + `"enforce":"watchdog",` + scope + parts + `}`},
		{"parameters", configured(one(), false, lease(`,"service":"embedding_service","enforce":"framework","caps":["torch","torch","jax"]`)), true,
			head + `"service":"embedding_service",` + named + `"enforce":"framework",` + scope + parts + `,"caps":["torch","jax"]}`},
		{"parameters, with another claim", configured(one(), false, lease(`,"enforce":"framework","caps":["torch"]`)), false,
			head + named + `"enforce":"watchdog",` + scope + parts + `}`},
		{"nothing enforces it", configured(one(), false, lease(`,"enforce":"none"`)), true, head + named + `"enforce":"none",` + scope + parts + `}`},
		{"no library", configured(one(), false, lease(`,"caps":[]`)), true, head + named + `"enforce":"watchdog",` + scope + parts + `}`},
		{"a service that the configuration does not have", configured(one(), false, lease(`,"service":"mine","enforce":"none"`)), true,
			head + `"service":"ml/mine",` + named + `"enforce":"none",` + scope + parts + `}`},
		{"another's service, of the class", configured(one(), true, lease(`,"service":"theirs","enforce":"none"`)), true,
			head + `"service":"theirs",` + named + `"enforce":"none",` + scope + parts + `}`},
		{"what the class says", configured(one(), true, lease(`,"priority":7,"service":"a","socket":true`)), true,
			head + `"service":"a",` + named + `"priority":7,"enforce":"auto",` + scope + parts + `,"caps":["cupy","jax"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := request(t, c.claim, c.alone); got != c.want {
				t.Errorf("request\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// Two fixed shares of one device are one part of the lease, because the daemon takes a
// device once.
func TestRequestOfFixedShares(t *testing.T) {
	got := request(t, sample(got("a", "gpu-1-s0", "", ""), got("a", "gpu-2-s3", "", ""), got("a", "gpu-1-s1", "", "")), true)
	if want := `"parts":[{"gpu":"GPU-1","memory_mb":2000,"slots":2},{"gpu":"GPU-2","memory_mb":1000,"slots":1}]`; !strings.Contains(got, want) {
		t.Errorf("request %s, want %s in it", got, want)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	yes := true
	admin := got("watch", "gpu-1", "", "")
	admin.AdminAccess = &yes
	alone := sample(got("gpu", "gpu-1", "s1", "8Gi 1"))
	alone.Status.ReservedFor = nil
	crowd := sample(got("gpu", "gpu-1", "s1", "8Gi 1"))
	for i := range MaxScope {
		crowd.Status.ReservedFor = append(crowd.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: types.UID(fmt.Sprint("u", i))})
	}
	for _, c := range []struct {
		name  string
		claim *resourcev1.ResourceClaim
		code  string
		says  string
	}{
		{"administration", sample(admin), BadClaim, "administration"},
		{"another's service", configured(sample(got("gpu", "gpu-1", "s1", "8Gi 1")), false, lease(`,"service":"theirs"`)), OtherService, "services.theirs.namespaces"},
		{"another's service in other letters", configured(sample(got("gpu", "gpu-1", "s1", "8Gi 1")), false, lease(`,"service":"no_body"`)), OtherService, "device class"},
		{"a name that leaves no room for the namespace", configured(sample(got("gpu", "gpu-1", "s1", "8Gi 1")), false, lease(`,"service":"`+strings.Repeat("x", 128)+`"`)), BadParameters, "shorter"},
		{"no pod", alone, BadClaim, "no pod"},
		{"too many pods", crowd, BadClaim, "257 pods"},
		{"a device that is gone", sample(got("gpu", "mig-7", "s1", "8Gi 1")), UnknownDevice, "mig-7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			read, err := Read(c.claim, node)
			if err != nil {
				t.Fatal(err)
			}
			_, err = read.Request(devices, services, true)
			if r := refusal(t, err); r.Code != c.code || !strings.Contains(r.Text, c.says) {
				t.Errorf("refused by %+v", r)
			}
		})
	}
}

func TestLongNames(t *testing.T) {
	c := sample(got("gpu", "gpu-1", "s1", "8Gi 1"))
	c.Namespace, c.Status.ReservedFor[0].Name = strings.Repeat("n", 63), strings.Repeat("p", 253)
	read, err := Read(c, node)
	if err != nil {
		t.Fatal(err)
	}
	r, err := read.Request(devices, services, true)
	if err != nil || len(r.Name) > 128 || len(r.Name) < 120 {
		t.Errorf("name %q, %v", r.Name, err)
	}
}
