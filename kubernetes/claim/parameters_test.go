package claim

import (
	"reflect"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

func whole() *resourcev1.ResourceClaim { return sample(got("gpu", "gpu-1", "s1", "8Gi 1")) }

func TestParameters(t *testing.T) {
	seven := 7
	for _, c := range []struct {
		name  string
		claim *resourcev1.ResourceClaim
		want  Parameters
	}{
		{"none", whole(), Parameters{}},
		{"empty", configured(whole(), false, lease("")), Parameters{}},
		{"all", configured(whole(), true, lease(`,"service":"s","priority":7,"enforce":"auto","caps":["cupy"],"socket":true`)),
			Parameters{Service: "s", Priority: &seven, Enforce: "auto", Caps: []string{"cupy"}, Socket: true}},
		{"class first, wherever it stands", configured(configured(whole(), false, lease(`,"enforce":"framework","service":"s"`)), true, lease(`,"enforce":"watchdog","caps":["jax"]`)),
			Parameters{Service: "s", Claimed: true, Enforce: "framework", Caps: []string{"jax"}}},
		{"more libraries than the class names", configured(configured(whole(), true, lease(`,"enforce":"auto","caps":["jax"]`)), false, lease(`,"caps":["torch","jax"]`)),
			Parameters{Enforce: "auto", Caps: []string{"torch", "jax"}}},
		{"without a class nothing holds", configured(whole(), false, lease(`,"enforce":"none","caps":[]`)), Parameters{Enforce: "none", Caps: []string{}}},
		{"libraries of a class that only measures", configured(configured(whole(), true, lease(`,"enforce":"watchdog"`)), false, lease(`,"caps":["torch"]`)),
			Parameters{Enforce: "watchdog", Caps: []string{"torch"}}},
		{"a service that the class sets, said again", configured(configured(whole(), true, lease(`,"service":"s"`)), false, lease(`,"service":"s"`)), Parameters{Service: "s"}},
		{"for another request", configured(whole(), false, lease(`,"service":"s"`), "other"), Parameters{}},
		{"for this request", configured(whole(), false, lease(`,"service":"s"`), "other", "gpu"), Parameters{Service: "s", Claimed: true}},
		{"for a request with alternatives", configured(sample(got("gpu/small", "gpu-1", "s1", "8Gi 1")), false, lease(`,"service":"s"`), "gpu"), Parameters{Service: "s", Claimed: true}},
		{"for another alternative", configured(sample(got("gpu/small", "gpu-1", "s1", "8Gi 1")), false, lease(`,"service":"s"`), "gpu/large"), Parameters{}},
		{"what is allowed", configured(whole(), false, lease(`,"optimize":["park","trim","park"]`)), Parameters{Optimize: []string{"park", "trim"}}},
		{"the claim takes back what the class allows", configured(configured(whole(), true, lease(`,"optimize":["park"]`)), false, lease(`,"optimize":[]`)), Parameters{Optimize: []string{}}},
		{"the last counts", configured(configured(whole(), false, lease(`,"service":"a"`)), false, lease(`,"service":"b"`)), Parameters{Service: "b", Claimed: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			read, err := Read(c.claim, node)
			if err != nil || !reflect.DeepEqual(read.Parameters, c.want) {
				t.Errorf("parameters %+v, %v; want %+v", read.Parameters, err, c.want)
			}
		})
	}
	other := configured(whole(), false, `"not ours"`)
	other.Status.Allocation.Devices.Config[0].Opaque.Driver = "nic.example.com"
	if _, err := Read(other, node); err != nil {
		t.Errorf("parameters for another driver: %v", err)
	}
}

func TestParametersThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		claim *resourcev1.ResourceClaim
		says  []string
	}{
		{"an unknown field", configured(whole(), false, lease(`,"memory":"8Gi"`)), []string{"claim", `"memory"`, "service, priority, enforce, caps, optimize, socket"}},
		{"an unknown field of the class", configured(whole(), true, lease(`,"memory":"8Gi"`)), []string{"device class", `"memory"`}},
		{"other letters", configured(whole(), false, lease(`,"Service":"s"`)), []string{`"Service"`}},
		{"twice", configured(whole(), false, lease(`,"service":"a","service":"b"`)), []string{`"service"`, "twice"}},
		{"mps", configured(whole(), false, lease(`,"enforce":"mps"`)), []string{"enforce", "mps is not possible for pods", "auto"}},
		{"an unknown rung", configured(whole(), false, lease(`,"enforce":"hard"`)), []string{`"hard"`, "auto, framework, watchdog, none"}},
		{"an unknown library", configured(whole(), false, lease(`,"caps":["tensorflow"]`)), []string{"caps", `"tensorflow"`, "cupy, jax, torch"}},
		{"an unknown way to win memory back", configured(whole(), false, lease(`,"optimize":["move"]`)), []string{"optimize", `"move"`, "trim, shrink, park"}},
		{"a text for a list", configured(whole(), false, lease(`,"optimize":"park"`)), []string{"optimize", "list"}},
		{"null for a library", configured(whole(), false, lease(`,"caps":[null]`)), []string{"caps"}},
		{"framework without a library", configured(whole(), false, lease(`,"enforce":"framework","caps":[]`)), []string{"enforce", "caps"}},
		{"framework of the class without a library", configured(configured(whole(), true, lease(`,"enforce":"framework"`)), false, lease(`,"caps":[]`)), []string{"caps"}},
		{"priority in a claim", configured(whole(), false, lease(`,"priority":1`)), []string{"priority", "only a device class"}},
		{"socket in a claim", configured(whole(), false, lease(`,"socket":false`)), []string{"socket", "only a device class"}},
		{"another service than that of the class", configured(configured(whole(), true, lease(`,"service":"a"`)), false, lease(`,"service":"b"`)), []string{"service", `"a"`}},
		{"no limit in place of that of the class", configured(configured(whole(), true, lease(`,"enforce":"auto"`)), false, lease(`,"enforce":"none"`)), []string{"enforce", "auto"}},
		{"measuring in place of a limit", configured(configured(whole(), true, lease(`,"enforce":"framework"`)), false, lease(`,"enforce":"watchdog"`)), []string{"enforce", "framework", "turn that off"}},
		{"perhaps a limit in place of one", configured(configured(whole(), true, lease(`,"enforce":"framework"`)), false, lease(`,"enforce":"auto"`)), []string{"enforce", "framework"}},
		{"no library in place of those of the class", configured(configured(whole(), true, lease(`,"enforce":"auto"`)), false, lease(`,"caps":[]`)), []string{"caps", "cupy, jax"}},
		{"another library than that of the class", configured(configured(whole(), true, lease(`,"caps":["torch"]`)), false, lease(`,"caps":["jax"]`)), []string{"caps", "torch"}},
		{"no limit where the class names a library", configured(configured(whole(), true, lease(`,"caps":["torch"]`)), false, lease(`,"enforce":"none"`)), []string{"enforce", "auto"}},
		{"another version", configured(whole(), false, `{"apiVersion":"gpu.berth.dev/v1","kind":"Lease"}`), []string{"gpu.berth.dev/v1alpha1"}},
		{"another kind", configured(whole(), false, `{"apiVersion":"gpu.berth.dev/v1alpha1","kind":"GpuConfig"}`), []string{`"GpuConfig"`, "Lease"}},
		{"no kind", configured(whole(), false, `{}`), []string{"gpu.berth.dev/v1alpha1"}},
		{"nothing", configured(whole(), false, ``), []string{"not a JSON object"}},
		{"a list", configured(whole(), false, `[1]`), []string{"not a JSON object"}},
		{"half", configured(whole(), false, `{"apiVersion":`), []string{"not a JSON object"}},
		{"more than an object", configured(whole(), false, lease("")+`{}`), []string{"follows"}},
		{"a service that is a number", configured(whole(), false, lease(`,"service":7`)), []string{"service", "must be a text"}},
		{"no service", configured(whole(), false, lease(`,"service":""`)), []string{"service", "1 to 128"}},
		{"null", configured(whole(), false, lease(`,"service":null`)), []string{"service", "must be a text"}},
		{"a service of two lines", configured(whole(), false, lease(`,"service":"a\nb"`)), []string{"service"}},
		{"a priority with a point", configured(whole(), true, lease(`,"priority":1.5`)), []string{"priority", "whole number"}},
		{"a priority beyond all others", configured(whole(), true, lease(`,"priority":99999999`)), []string{"priority", "1000000"}},
		{"a long text", configured(whole(), false, lease(`,"service":"`+strings.Repeat("s", 11<<10)+`"`)), []string{"bytes"}},
		{"other parameters for another request", configured(sample(got("a", "gpu-1", "s1", "8Gi 1"), got("b", "gpu-2", "s2", "8Gi 1")), false, lease(`,"service":"s"`), "b"),
			[]string{`"a"`, `"b"`, "use two claims"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			read, err := Read(c.claim, node)
			r := refusal(t, err)
			if r.Code != BadParameters || !reflect.DeepEqual(read, Claim{}) {
				t.Errorf("refused by %+v", r)
			}
			for _, part := range c.says {
				if !strings.Contains(r.Text, part) {
					t.Errorf("%q does not say %q", r.Text, part)
				}
			}
		})
	}
}
